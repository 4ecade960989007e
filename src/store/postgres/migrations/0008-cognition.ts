/**
 * Proposals are plain records. `plans.thought` marks plans that wait for the planner, so that a sidecar that reconnects
 * receives only those.
 */
export const cognition = `
alter table plans add column thought boolean not null default false;
create index plans_thought on plans (created_at, id) where thought;

create table proposals (
  id uuid primary key,
  tenant_id uuid not null,
  device_id uuid not null,
  home_id uuid,
  data jsonb not null,
  note text,
  asked_by jsonb not null,
  status text not null,
  reason text,
  steps jsonb not null,
  phase text not null,
  plan_id uuid,
  created_at bigint not null,
  spoken_at bigint
);
create index proposals_of_tenant on proposals (tenant_id, created_at, id);
create index proposals_open on proposals (created_at, id) where status = 'pending' and phase <> 'done';
create index proposals_open_of_tenant on proposals (tenant_id, created_at, id) where status = 'pending' and phase <> 'done';
`;

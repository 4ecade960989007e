/** The inbox of a tenant: small, because a confirmation that is over leaves the index with the status. */
export const confirmations = `
create index commands_awaiting on commands (tenant_id, created_at, id) where status = 'awaiting_confirmation';
`;

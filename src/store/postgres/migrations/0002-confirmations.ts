/** Index of a tenant's confirmation inbox. It stays small: a command leaves it when its status changes. */
export const confirmations = `
create index commands_awaiting on commands (tenant_id, created_at, id) where status = 'awaiting_confirmation';
`;

/** The user of a token that was presented at `/mcp`; null in rows of older builds. Each user has a limited number of them. */
export const agentTokenUsers = `
alter table presented_tokens add column user_id uuid;
`;

/** The restriction of a key; null for a key that is not restricted, and for those that older builds made. */
export const keyRestrictionsMigration = `
alter table api_keys add column restriction jsonb;
`;

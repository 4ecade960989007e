/**
 * The end of a rotated key's grace, and the links between a key and its successor; null for keys without a grace, and for
 * those that older builds made. The expiry of the key is at most its grace, which is what older builds read.
 */
export const keyGraceMigration = `
alter table api_keys add column grace_until bigint;
alter table api_keys add column replaced_by text;
alter table api_keys add column replaces text;
`;

/** What a manifest says of reported properties (docs/decisions/0071); null for one without. */
export const manifestPropertiesMigration = `
alter table manifests add column properties jsonb;
`;

/**
 * Where an audited action came from: the client's address, and the client as it calls itself. Null in rows of builds that
 * do not know it. `count` is above 1 in a row that stands for the repetitions of an earlier one.
 */
export const auditOrigin = `
alter table audit add column address text;
alter table audit add column client text;
alter table audit add column count integer not null default 1;
`;

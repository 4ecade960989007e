/**
 * The column of the live part of a context is named after it. A rename changes the catalogue only: it rewrites no row,
 * and keeps the column's compression and statistics target, and the privileges and indexes of its table.
 */
export const liveColumn = `
alter table devices rename column moving to live;
alter table commands rename column moving to live;
alter table plans rename column moving to live;
alter table tenants rename column moving to live;
`;

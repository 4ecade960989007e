/**
 * From here on the context of a command is without what its columns say, which a build from before would miss. Its rows are shorter by a
 * sixth: three share a page, and each has room there for its update.
 */
export const saidOnce = `
alter table commands set (fillfactor = 50);
`;

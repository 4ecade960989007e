/**
 * `firmware.released_by` is the user that released a version. Null for a draft, and for a release of a build that does not
 * know the column.
 */
export const firmwareReleasers = 'alter table firmware add column released_by uuid';

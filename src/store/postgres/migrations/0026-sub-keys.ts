/**
 * Changes no table: when it is applied, all nodes open values that were sealed with a sub-key, and nodes of builds that do
 * not cannot start.
 */
export const subKeys = 'select 1';

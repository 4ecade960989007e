import { createContext, useContext } from 'react';

/** Time of the lost connection on a wall, in epoch milliseconds; null while values are live, and on pages with a banner. */
const OutdatedSince = createContext<number | null>(null);

export const OutdatedProvider = OutdatedSince;
export const useOutdatedSince = (): number | null => useContext(OutdatedSince);

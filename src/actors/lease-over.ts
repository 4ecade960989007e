import { StoreUnavailable } from '../store/contract.ts';

/** This process may be the active one no more: nothing is written, and nothing is answered from memory. */
export class LeaseOver extends StoreUnavailable {
  override name = 'LeaseOver';
  constructor() {
    super('the lease of the active process is over');
  }
}

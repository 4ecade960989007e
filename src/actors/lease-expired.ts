import { StoreUnavailable } from '../store/contract.ts';

/** The lease has ended: another process may be active. Nothing is written or answered from memory. */
export class LeaseExpired extends StoreUnavailable {
  override name = 'LeaseOver';
  constructor() {
    super('the lease of the active process is over');
  }
}

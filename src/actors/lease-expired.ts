import { StoreUnavailable } from '../store/contract.ts';

/** The lease has expired: another process may be active. Nothing is written, and nothing is answered from memory. */
export class LeaseExpired extends StoreUnavailable {
  override name = 'LeaseExpired';
  constructor() {
    super('the lease of the active process has expired');
  }
}

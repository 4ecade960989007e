/** An entry of `GET /v1/confirmations`, as far as it is counted. */
interface ListedConfirmation {
  command_id: string;
  expires_at: string;
}

/** `confirmation_update` of `/ws/state`; `expires_at` is in epoch milliseconds. */
export interface ConfirmationUpdate {
  command_id: string;
  status: string;
  expires_at: number;
  /** A requested dry run, which the list does not have. */
  dry_run?: boolean;
}

/** Commands that wait for confirmation: the last listing, with the updates of the stream since its request. */
export class WaitingSet {
  readonly #expiries = new Map<string, number>();
  /** Null while no listing is requested. */
  #sinceRequest: ConfirmationUpdate[] | null = null;
  #requests = 0;

  /** Starts a listing. The returned function sets its answer, null if it failed; only that of the latest listing counts. */
  beginListing(): (confirmations: readonly ListedConfirmation[] | null) => void {
    this.#requests += 1;
    const request = this.#requests;
    this.#sinceRequest = [];
    return (confirmations) => {
      if (request !== this.#requests) return;
      const updates = this.#sinceRequest ?? [];
      this.#sinceRequest = null;
      if (confirmations === null) return;
      this.#expiries.clear();
      for (const { command_id, expires_at } of confirmations) this.#expiries.set(command_id, Date.parse(expires_at));
      // The answer may be older than these updates.
      for (const update of updates) this.#set(update);
    };
  }

  apply(update: ConfirmationUpdate): void {
    this.#sinceRequest?.push(update);
    this.#set(update);
  }

  /** Number of commands that wait at `now`, in epoch milliseconds. Expired ones are removed. */
  countAt(now: number): number {
    for (const [id, expiresAt] of this.#expiries) {
      if (expiresAt <= now) this.#expiries.delete(id);
    }
    return this.#expiries.size;
  }

  #set({ command_id, status, expires_at, dry_run = false }: ConfirmationUpdate): void {
    if (status === 'awaiting_confirmation' && !dry_run) this.#expiries.set(command_id, expires_at);
    else this.#expiries.delete(command_id);
  }
}

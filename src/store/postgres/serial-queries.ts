import type pg from 'pg';

/**
 * Sends the statements of one connection one at a time, in the order of the calls. pg has such a queue too, but its next
 * version will not, and there the time limit of a statement begins while others are executed.
 */
export class SerialQueries {
  readonly #client: Pick<pg.Client, 'query'>;
  #last: Promise<unknown> = Promise.resolve();

  constructor(client: Pick<pg.Client, 'query'>) {
    this.#client = client;
  }

  query<Row extends object>(statement: pg.QueryConfig): Promise<{ rows: Row[] }> {
    const answer = this.#last.then(() => this.#client.query<Row>(statement));
    this.#last = answer.catch(() => {});
    return answer;
  }
}

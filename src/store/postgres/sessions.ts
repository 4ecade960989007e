import { setTimeout as pause } from 'node:timers/promises';
import type pg from 'pg';

/** A server's process, and since when it is that one: process numbers come again. */
interface Session {
  pid: number;
  start: string;
}

const LOOK_MS = 5;

/**
 * The server's side of a pool's connections. A statement whose connection was lost may still come true as long as its
 * session lives: a session that was lost in mid-statement is ended, and is gone before anything else is asked.
 */
export class Sessions {
  private readonly ofClient = new WeakMap<pg.ClientBase, Session>();
  private readonly lost: Session[] = [];

  /** For each new connection of the pool. */
  readonly met = async (client: pg.ClientBase): Promise<void> => {
    const { rows } = await client.query<Session>(
      'select pid, backend_start::text as start from pg_stat_activity where pid = pg_backend_pid()',
    );
    if (rows[0]) this.ofClient.set(client, rows[0]);
  };

  /** It was lost while it ran something that writes. */
  losing(client: pg.ClientBase): void {
    const session = this.ofClient.get(client);
    if (session) this.lost.push(session);
  }

  get clear(): boolean {
    return this.lost.length === 0;
  }

  /** Resolves when those that were lost are gone. */
  async bury(client: pg.ClientBase): Promise<void> {
    const lost = [...this.lost];
    const text = `select pg_terminate_backend(pid) from pg_stat_activity
      join unnest($1::integer[], $2::text[]) as l(pid, start) using (pid) where backend_start::text = l.start`;
    const values = [lost.map(({ pid }) => pid), lost.map(({ start }) => start)];
    while ((await client.query(text, values)).rows.length > 0) await pause(LOOK_MS);
    for (const session of lost) {
      const at = this.lost.indexOf(session);
      if (at >= 0) this.lost.splice(at, 1);
    }
  }
}

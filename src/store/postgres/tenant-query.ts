import pg from 'pg';
import type { Uuid } from '../../domain/values.ts';
import { requireDriverParts } from './driver-parts.ts';
import { roleFault } from './faults.ts';

/** The rows that a statement for one tenant may reach under row-level security. */
export interface TenantScope {
  tenantId: Uuid;
  /** Primary key of the row of `idempotency` that the statement writes. */
  idempotencyKey?: string | null | undefined;
}

const ENTER = 'tenant_enter';

/** Limits the rest of its transaction to the rows of a tenant. It needs no lock and reads no table. */
export const enterStatement = (role: string): string =>
  `select set_config('twinkeep.tenant', $1, true), set_config('twinkeep.idempotency', $2, true),
    set_config('role', ${pg.escapeLiteral(role)}, true)`;

const scopeValues = ({ tenantId, idempotencyKey }: TenantScope): string[] => [tenantId, idempotencyKey ?? ''];

/** The parts of `pg.Query` and `pg.Connection` that their types do not declare. */
interface ProtocolQuery extends pg.Submittable {
  submit(connection: pg.Connection): Error | null;
  handleDataRow(message: unknown): void;
  handleCommandComplete(message: unknown, connection: pg.Connection): void;
}
interface ExtendedProtocol {
  bind(config: { statement: string; values: readonly string[] }): void;
  execute(config: object): void;
  stream: { cork(): void; uncork(): void; destroy(): void };
}
type Callback = (error: Error | undefined, result: pg.QueryResult) => void;

// Before the class below, which would fail without naming the part.
requireDriverParts();

const ExtendedQuery = pg.Query as unknown as new (config: pg.QueryConfig, callback: Callback) => ProtocolQuery;

/**
 * A statement that runs as the role of tenants. The settings are sent in the same packet and the same transaction
 * (extended query protocol: one Sync), so that they cost no round trip, and end with it. If they fail, the server skips
 * the statement.
 */
class TenantQuery extends ExtendedQuery {
  readonly #scope: readonly string[];
  #hasEntered = false;

  /** Whether the settings succeeded, so that a later error is one of the statement. */
  get hasEntered(): boolean {
    return this.#hasEntered;
  }

  constructor(config: pg.QueryConfig, scope: readonly string[], callback: Callback) {
    super({ ...config, queryMode: 'extended' } as pg.QueryConfig, callback);
    this.#scope = scope;
  }

  override submit(connection: pg.Connection): Error | null {
    const protocol = connection as unknown as ExtendedProtocol;
    protocol.stream.cork();
    try {
      protocol.bind({ statement: ENTER, values: this.#scope });
      protocol.execute({});
      const error = super.submit(connection);
      // Without the statement no Sync is sent, and the next one would run in the same transaction.
      if (error !== null) protocol.stream.destroy();
      return error;
    } finally {
      protocol.stream.uncork();
    }
  }

  /** The first row and the first completion are those of the settings. */
  override handleDataRow(message: unknown): void {
    if (this.#hasEntered) super.handleDataRow(message);
  }

  override handleCommandComplete(message: unknown, connection: pg.Connection): void {
    if (this.#hasEntered) super.handleCommandComplete(message, connection);
    this.#hasEntered = true;
  }
}

/** Runs statements as the role of tenants. Throws `TenantRoleRefused` if the role is the cause, and errors of the driver. */
export class TenantQueries {
  readonly #enter: string;
  /** Connections on which `ENTER` is prepared. */
  readonly #prepared = new WeakSet<pg.ClientBase>();
  readonly #onPrepared: (client: pg.ClientBase, name: string) => void;

  /** `onPrepared` is called with the name of each statement that is prepared on a connection beside those of callers. */
  constructor(role: string, onPrepared: (client: pg.ClientBase, name: string) => void) {
    this.#enter = enterStatement(role);
    this.#onPrepared = onPrepared;
  }

  async query<Row extends pg.QueryResultRow>(
    client: pg.ClientBase,
    config: pg.QueryConfig,
    scope: TenantScope,
  ): Promise<pg.QueryResult<Row>> {
    const values = scopeValues(scope);
    if (!this.#prepared.has(client)) {
      await client.query({ name: ENTER, text: this.#enter, values }).catch((error: unknown) => {
        throw roleFault(error, false) ?? error;
      });
      this.#prepared.add(client);
      this.#onPrepared(client, ENTER);
    }
    return new Promise((resolve, reject) => {
      const query = new TenantQuery(config, values, (error, result) => {
        if (error) reject(roleFault(error, query.hasEntered) ?? error);
        else resolve(result as pg.QueryResult<Row>);
      });
      client.query(query);
    });
  }
}

import type { Caller, Operation } from '../../../src/operations/operation.ts';
import type { Cluster } from '../service/cluster.ts';
import type { Service } from '../service/process.ts';
import type { World } from '../world/world.ts';
import type { Ledger, Requested } from './ledger.ts';

/** Temporary refusals: the same request is sent again, with its key. */
const passing = new Set(['STORE_UNAVAILABLE', 'CONFLICT', 'OVERLOADED', 'RATE_LIMIT_EXCEEDED', 'STANDBY']);

/** Refusals that end by themselves; a caller that must learn the outcome of an earlier attempt retries with its key. */
const ending = new Set(['MAINTENANCE', 'TENANT_SUSPENDED', 'COMMANDS_DISABLED', 'REGISTRATION_LOCKED']);

/** Refusals before anything is done. */
const withoutEffect = new Set([
  'RATE_LIMIT_EXCEEDED',
  'MAINTENANCE',
  'COMMANDS_DISABLED',
  'REGISTRATION_LOCKED',
  'TENANT_SUSPENDED',
  'FORBIDDEN',
  'FORBIDDEN_ROLE',
]);
// biome-ignore lint/suspicious/noExplicitAny: bodies are read by their wire names, whichever operation answered.
export type Body = any;
export type CallResult = { body: Body; code: null } | { body: null; code: string };

/** A user of the API. */
export interface Person {
  id: string;
  name: string;
  platformAdmin: boolean;
}

/** Sends requests as a careful client does: retries with the same key until there is a response. */
export class Callers {
  readonly #world: World;
  readonly #cluster: Cluster;
  readonly #ledger: Ledger;
  /** Unanswered requests. */
  waiting = 0;

  constructor(world: World, cluster: Cluster, ledger: Ledger) {
    this.#world = world;
    this.#cluster = cluster;
    this.#ledger = ledger;
  }

  /** `persist`: retries although a flag or a suspension refuses it for now. */
  async request(person: Person, operation: Operation, input: object, persist = false): Promise<CallResult> {
    const { random, scheduler } = this.#world;
    const key = this.#cluster.newId();
    const requested: Requested = { operation: operation.name, tries: new Set(), answer: null };
    if (operation.changes) this.#ledger.requests.set(key, requested);
    this.waiting += 1;
    try {
      for (;;) {
        // Occasionally a proxy sends a request twice.
        const twice = random.chance(0.05);
        const [sent, again] = await Promise.all([
          this.#send(person, operation, input, { key, requested }),
          twice ? this.#send(person, operation, input, { key, requested }) : null,
        ]);
        const answered = [sent, again].find((one) => one !== null && one !== undefined && !isPassing(one, persist));
        if (answered) return answered;
        await scheduler.sleep(random.between(50, 800));
      }
    } finally {
      this.waiting -= 1;
    }
  }

  async #send(
    person: Person,
    operation: Operation,
    input: object,
    { key, requested }: { key: string; requested: Requested },
  ): Promise<CallResult | null> {
    const requestId = this.#cluster.newId();
    requested.tries.add(requestId);
    const keyed = { key, method: 'POST', path: `/${operation.name}`, body: input as never };
    const isRetry = requested.tries.size > 1;
    const forbidden = this.#ledger.forbids(operation, isRetry);
    const sent = await this.#cluster.exchange(operation.name, async (service) => {
      const answer = await perform(service, operation, { person, requestId, input, keyed });
      this.#judge(requestId, answer);
      return answer;
    });
    if (sent?.code === null && forbidden !== null && this.#ledger.forbids(operation, isRetry) === forbidden) {
      this.#world.fail('flags-and-rate-limits-are-enforced', `${operation.name} was done while ${forbidden} was set`);
    }
    this.#world.count(sent === null ? 'no answer' : sent.code === null ? 'answered' : `refused: ${sent.code}`);
    this.#world.note(
      person.name,
      `${operation.name} ${requestId.slice(-6)} ${sent === null ? 'no answer' : (sent.code ?? 'ok')}`,
    );
    if (sent?.code === null && operation.changes) this.#sameAnswer(key, requested, JSON.stringify(sent.body));
    return sent;
  }

  /** Records a refusal before anything is done; its response can be lost in transit. */
  #judge(requestId: string, { code }: CallResult): void {
    if (code !== null && withoutEffect.has(code)) this.#ledger.refused.set(requestId, code);
  }

  #sameAnswer(key: string, requested: Requested, answer: string): void {
    requested.answer ??= answer;
    if (requested.answer === answer) return;
    this.#world.fail(
      'idempotency-key-keeps-its-answer',
      `key ${key} of ${requested.operation}: ${requested.answer}, then ${answer}`,
    );
  }
}

const isPassing = ({ code }: CallResult, persist: boolean): boolean =>
  code !== null && (passing.has(code) || (persist && ending.has(code)));

async function perform(
  service: Service,
  operation: Operation,
  requested: { person: Person; requestId: string; input: object; keyed: Parameters<Service['perform']>[1]['keyed'] },
): Promise<CallResult> {
  const { person, requestId, input, keyed } = requested;
  const caller = await callerOf(service, person, requestId).catch(() => null);
  if (caller === null) return { body: null, code: 'STORE_UNAVAILABLE' };
  const address = '192.0.2.1';
  const charged = await Promise.resolve(service.rateLimiter.chargeCaller(caller, address)).catch(() => null);
  if (charged === null) return { body: null, code: 'STORE_UNAVAILABLE' };
  if (charged.refusal !== null) return { body: null, code: charged.refusal.code };
  const outcome = await service.perform(operation, { input, caller, keyed: operation.changes ? keyed : null });
  return outcome.ok ? { body: outcome.value.body, code: null } : { body: null, code: outcome.refusal.code };
}

async function callerOf({ services }: Service, person: Person, requestId: string): Promise<Caller | null> {
  const user = await services.users.get(person.id);
  if (user === null) return null;
  return {
    user,
    principal: { kind: 'user', id: user.id, via: 'rest', person: true, requestId },
    tenantId: user.tenantId,
    role: user.role,
    scopes: null,
    platformAdmin: person.platformAdmin,
    token: null,
    endsAt: null,
    requestId,
  };
}

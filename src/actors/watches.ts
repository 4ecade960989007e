import type { Uuid } from '../domain/values.ts';
import type { MachineEvent } from '../machines/definition.ts';
import type { Watch } from '../machines/device-types.ts';
import type { Store } from '../store/contract.ts';
import type { Supervisor } from './supervisor.ts';

const NONE: readonly Watch[] = [];

/**
 * Which commands wait to see their expected state in a device's reports. An index of what the command rows say, made
 * anew at each start; the machines decide, this only carries the question along with each report.
 */
export class Watches {
  private readonly byDevice = new Map<Uuid, Map<Uuid, Watch>>();
  /** The same as lists, made when a report asks. */
  private readonly lists = new Map<Uuid, readonly Watch[]>();

  constructor(supervisor: Supervisor) {
    supervisor.on('verification.watch', ({ deviceId, commandId, expected }) => {
      this.add(deviceId, { commandId, expected, seen: false });
    });
    supervisor.on('verification.unwatch', ({ deviceId, commandId }) => this.remove(deviceId, commandId));
    supervisor.onTransition((committed, event) => {
      if (committed.ref.kind !== 'command' || event.type !== 'state.observed') return;
      const { deviceId } = event as MachineEvent & { deviceId: Uuid };
      const own = this.byDevice.get(deviceId)?.get(committed.ref.id);
      if (own) own.seen = true;
    });
  }

  of(deviceId: Uuid): readonly Watch[] {
    const waiting = this.byDevice.get(deviceId);
    if (waiting === undefined) return NONE;
    let list = this.lists.get(deviceId);
    if (list === undefined) {
      list = [...waiting.values()];
      this.lists.set(deviceId, list);
    }
    return list;
  }

  async load(store: Store): Promise<void> {
    for (const { deviceId, ...watch } of await store.commands.watching()) this.add(deviceId, watch);
  }

  private add(deviceId: Uuid, watch: Watch): void {
    let waiting = this.byDevice.get(deviceId);
    if (waiting === undefined) {
      waiting = new Map();
      this.byDevice.set(deviceId, waiting);
    }
    if (waiting.has(watch.commandId)) return;
    waiting.set(watch.commandId, watch);
    this.lists.delete(deviceId);
  }

  private remove(deviceId: Uuid, commandId: Uuid): void {
    const waiting = this.byDevice.get(deviceId);
    if (!waiting?.delete(commandId)) return;
    this.lists.delete(deviceId);
    if (waiting.size === 0) this.byDevice.delete(deviceId);
  }
}

import type { Uuid } from '../domain/values.ts';
import type { Watch } from '../machines/device-types.ts';
import type { Store } from '../store/contract.ts';
import type { Supervisor } from './supervisor.ts';

const NONE: readonly Watch[] = [];

/**
 * Which commands wait to see their expected state in a device's reports. An index of what the command rows say, made
 * anew at each start; the machines decide, this only carries the question along with each report.
 */
export class Watches {
  private readonly byDevice = new Map<Uuid, Watch[]>();

  constructor(supervisor: Supervisor) {
    supervisor.on('verification.watch', ({ deviceId, commandId, expected }) => {
      this.add(deviceId, { commandId, expected, seen: false });
    });
    supervisor.on('verification.unwatch', ({ deviceId, commandId }) => this.remove(deviceId, commandId));
    supervisor.onTransition((committed, event) => {
      if (committed.ref.kind !== 'command' || event.type !== 'state.observed') return;
      const watch = this.byDevice.get((event as unknown as { deviceId: Uuid }).deviceId);
      const own = watch?.find((one) => one.commandId === committed.ref.id);
      if (own) own.seen = true;
    });
  }

  of(deviceId: Uuid): readonly Watch[] {
    return this.byDevice.get(deviceId) ?? NONE;
  }

  async load(store: Store): Promise<void> {
    for (const { deviceId, ...watch } of await store.commands.watching()) this.add(deviceId, watch);
  }

  private add(deviceId: Uuid, watch: Watch): void {
    const others = this.byDevice.get(deviceId);
    if (!others) this.byDevice.set(deviceId, [watch]);
    else if (!others.some((one) => one.commandId === watch.commandId)) others.push(watch);
  }

  private remove(deviceId: Uuid, commandId: Uuid): void {
    const left = this.byDevice.get(deviceId)?.filter((one) => one.commandId !== commandId);
    if (left && left.length > 0) this.byDevice.set(deviceId, left);
    else this.byDevice.delete(deviceId);
  }
}

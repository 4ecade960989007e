import { open, readFile, rename } from 'node:fs/promises';
import type { AckStatus } from '../domain/command.ts';
import { checkJson } from '../domain/json/strict.ts';
import type { JsonObject } from '../domain/values.ts';

/** A command the device has received, saved so that a repeat is answered without running it again. */
export interface RememberedCommand {
  commandId: string;
  /** A status that is not final means that the command was running when this was stored. */
  status: AckStatus;
  /** `result` or `error` of the final acknowledgement. */
  outcome: JsonObject;
}

/** A message that the service has not acknowledged. */
export interface WaitingMessage {
  messageId: string;
  type: 'state' | 'cmd_ack';
  payload: JsonObject;
  /** Null until the message is first sent; unchanged after that. */
  sequence: number | null;
}

/** The state of a device that survives a restart of its process. */
export interface DeviceMemory {
  nextSequence: number;
  state: JsonObject;
  cloudPublicKeys: string[];
  commands: RememberedCommand[];
  waiting: WaitingMessage[];
}

/** Persistence of a device's memory. `save` resolves when the memory is durable; calls do not overlap. */
export interface DeviceMemoryStore {
  load(): Promise<DeviceMemory | null>;
  save(memory: DeviceMemory): Promise<void>;
}
/** The name of the type for importers of `twinkeep/device/store`. */
export type { DeviceMemoryStore as DeviceStore };

/** Keeps the memory in this object only: for tests and simulated devices. */
export function memoryStore(): DeviceMemoryStore {
  let saved: string | null = null;
  return {
    load: async () => (saved === null ? null : (JSON.parse(saved) as DeviceMemory)),
    save: async (memory) => {
      saved = JSON.stringify(memory);
    },
  };
}

/**
 * Keeps the memory in one file, replaced atomically: after a crash or power loss it holds one of the saved versions.
 * `load` throws if the file exists but is damaged.
 */
export function fileStore(path: string): DeviceMemoryStore {
  return {
    async load() {
      const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
        if (error.code === 'ENOENT') return null;
        throw error;
      });
      if (text === null) return null;
      const memory = parseMemory(text);
      if (memory === null) throw new Error(`${path} is damaged: it does not contain the memory of a device`);
      return memory;
    },
    async save(memory) {
      const next = `${path}.next`;
      const file = await open(next, 'w', 0o600);
      try {
        await file.writeFile(JSON.stringify(memory));
        await file.sync();
      } finally {
        await file.close();
      }
      await rename(next, path);
    },
  };
}

function parseMemory(text: string): DeviceMemory | null {
  let memory: Partial<DeviceMemory> | null;
  try {
    memory = JSON.parse(text);
  } catch {
    return null;
  }
  const valid =
    checkJson(memory).ok &&
    Number.isSafeInteger(memory?.nextSequence) &&
    typeof memory?.state === 'object' &&
    [memory.cloudPublicKeys, memory.commands, memory.waiting].every(Array.isArray);
  return valid ? (memory as DeviceMemory) : null;
}

/** Coalesces saves: calls during a running save share the next one. */
export class Saver {
  readonly #store: DeviceMemoryStore | undefined;
  readonly #snapshot: () => DeviceMemory;
  readonly #onFault: (error: unknown) => void;
  #running: Promise<void> = Promise.resolve();
  #next: Promise<void> | null = null;

  /** `onFault` is called for each failed save; the next save contains the same changes. */
  constructor(store: DeviceMemoryStore | undefined, snapshot: () => DeviceMemory, onFault: (error: unknown) => void) {
    this.#store = store;
    this.#snapshot = snapshot;
    this.#onFault = onFault;
  }

  /** Resolves when the current memory has been saved or the save has failed. Without a store: at once. */
  save(): Promise<void> {
    const store = this.#store;
    if (store === undefined) return this.#running;
    this.#next ??= this.#running.then(() => {
      this.#next = null;
      this.#running = store.save(this.#snapshot()).catch(this.#onFault);
      return this.#running;
    });
    return this.#next;
  }
}

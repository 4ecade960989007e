import { open, readFile, rename } from 'node:fs/promises';
import type { AckStatus } from '../domain/command.ts';
import { checkJson } from '../domain/json/strict.ts';
import type { JsonObject } from '../domain/values.ts';

/** A command the device has seen, so that a repeat is answered and not done again. */
export interface RememberedCommand {
  commandId: string;
  /** Not final: it was running when this was written. */
  status: AckStatus;
  /** `result` or `error` of its last word. */
  outcome: JsonObject;
}

/** A message the service has not acknowledged. */
export interface WaitingMessage {
  messageId: string;
  type: 'state' | 'cmd_ack';
  payload: JsonObject;
  /** Null until it is first sent; after that it keeps its number. */
  sequence: number | null;
}

/** All that a device takes from one run of its process to the next. */
export interface DeviceMemory {
  nextSequence: number;
  state: JsonObject;
  cloudPublicKeys: string[];
  commands: RememberedCommand[];
  waiting: WaitingMessage[];
}

/** Where a device keeps its memory. `save` has stored it when it resolves; one call runs at a time. */
export interface DeviceStore {
  load(): Promise<DeviceMemory | null>;
  save(memory: DeviceMemory): Promise<void>;
}

/** Keeps the memory as long as this object lives: for tests, and for devices that are simulated. */
export function memoryStore(): DeviceStore {
  let kept: string | null = null;
  return {
    load: async () => (kept === null ? null : (JSON.parse(kept) as DeviceMemory)),
    save: async (memory) => {
      kept = JSON.stringify(memory);
    },
  };
}

/**
 * Keeps the memory in one file, replaced whole: after a crash or a power cut it holds one of the saved versions.
 * `load` throws when the file is there and is not one of them.
 */
export function fileStore(path: string): DeviceStore {
  return {
    async load() {
      const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
        if (error.code === 'ENOENT') return null;
        throw error;
      });
      if (text === null) return null;
      const memory = parseMemory(text);
      if (memory === null) throw new Error(`${path} is damaged: it holds no device's memory`);
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

/** Saves a memory that changes often: calls that come while one save runs share the next one. */
export class Saver {
  readonly #store: DeviceStore | undefined;
  readonly #snapshot: () => DeviceMemory;
  readonly #onFault: (error: unknown) => void;
  #running: Promise<void> = Promise.resolve();
  #next: Promise<void> | null = null;

  /** `onFault` hears of every save that failed; what it held is in the next one. */
  constructor(store: DeviceStore | undefined, snapshot: () => DeviceMemory, onFault: (error: unknown) => void) {
    this.#store = store;
    this.#snapshot = snapshot;
    this.#onFault = onFault;
  }

  /** Resolves when all that stands now has been saved, or could not be. Without a store: at once. */
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

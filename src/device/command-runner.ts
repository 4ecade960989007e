import type { AckStatus } from '../domain/command.ts';
import type { EpochMs, Json, JsonObject } from '../domain/values.ts';
import type { CmdAckPayload, CmdPayload } from '../protocol/payloads.ts';
import type { RememberedCommand } from './store.ts';

/** The result of a handler. `state` is merged into the device's state and sent with the acknowledgement. */
export interface CommandResult {
  result?: Json;
  state?: JsonObject;
}

/** Identifies the command to its handler, and reports the progress. */
export interface HandlerContext {
  readonly commandId: string;
  readonly action: string;
  /** Aborted when the device is closed. */
  readonly signal: AbortSignal;
  /** Reports the progress in percent, with the state that has changed so far. */
  progress(progress: number, state?: JsonObject): void;
}

/** Carries out one action. If it throws, the command fails, and the error's message is sent to the caller. */
export type CommandHandler = (
  params: JsonObject,
  context: HandlerContext,
) => CommandResult | undefined | Promise<CommandResult | undefined>;

/** Contract §4: a device should remember 32 commands and answer a repeated command with its former outcome. */
const MAX_REMEMBERED = 32;
const MAX_ERROR_LENGTH = 500;

/**
 * Truncates the text and replaces what a message must not contain: lone surrogates, which truncation can leave, and
 * NUL.
 */
const toErrorText = (text: string) => text.slice(0, MAX_ERROR_LENGTH).toWellFormed().replaceAll('\0', '\ufffd');

const isFinal = (status: AckStatus) => status === 'succeeded' || status === 'failed';

/** Runs each command at most once: a command is stored as started before its handler is called. */
export class CommandRunner {
  readonly #handlers: ReadonlyMap<string, CommandHandler>;
  readonly #ack: (ack: CmdAckPayload) => void;
  readonly #saved: () => Promise<void>;
  readonly #stopped = new AbortController();
  #commands: RememberedCommand[];
  readonly #running = new Set<string>();

  /**
   * `ack` merges the acknowledgement's state and sends it; `saved` resolves when the device's memory has been stored.
   */
  constructor(options: {
    handlers: Readonly<Record<string, CommandHandler>>;
    commands: readonly RememberedCommand[];
    ack: (ack: CmdAckPayload) => void;
    saved: () => Promise<void>;
  }) {
    this.#handlers = new Map(Object.entries(options.handlers));
    this.#commands = options.commands.map((command) => ({ ...command }));
    this.#ack = options.ack;
    this.#saved = options.saved;
  }

  /** The most recent commands, for `DeviceMemory`. */
  list(): RememberedCommand[] {
    return this.#commands.map((command) => ({ ...command }));
  }

  /** Handles a command; resolves when its final status was acknowledged. Handlers start in the order of the calls. */
  async handle(command: CmdPayload, now: () => EpochMs): Promise<void> {
    const known = this.#commands.find((earlier) => earlier.commandId === command.command_id);
    if (known !== undefined) {
      this.#repeat(known);
      return;
    }
    if (now() > command.expires_at) {
      this.#ack({ command_id: command.command_id, status: 'failed', error: 'the command has expired' });
      return;
    }
    const handler = this.#handlers.get(command.action);
    const entry: RememberedCommand = { commandId: command.command_id, status: 'accepted', outcome: {} };
    this.#remember(entry);
    if (handler === undefined) {
      this.#finish(entry, 'failed', { error: `unknown action ${command.action}` });
      return;
    }
    this.#running.add(entry.commandId);
    this.#ack({ command_id: entry.commandId, status: 'accepted' });
    await this.#saved();
    await this.#run(entry, handler, command);
    this.#running.delete(entry.commandId);
  }

  /** Aborts the signal of running handlers; their outcomes are still acknowledged. */
  stop(): void {
    this.#stopped.abort();
  }

  async #run(entry: RememberedCommand, handler: CommandHandler, command: CmdPayload): Promise<void> {
    const context: HandlerContext = {
      commandId: command.command_id,
      action: command.action,
      signal: this.#stopped.signal,
      progress: (progress, state) => {
        if (isFinal(entry.status)) return;
        entry.status = 'in_progress';
        const more = state === undefined ? {} : { state };
        this.#ack({ command_id: entry.commandId, status: 'in_progress', progress, ...more });
      },
    };
    try {
      const done = (await handler(command.params, context)) ?? {};
      const result = done.result === undefined ? {} : { result: done.result };
      this.#finish(entry, 'succeeded', result, done.state);
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      this.#finish(entry, 'failed', { error: toErrorText(message) });
    }
  }

  #finish(entry: RememberedCommand, status: AckStatus, outcome: JsonObject, state?: JsonObject): void {
    const more = state === undefined ? {} : { state };
    this.#ack({ command_id: entry.commandId, status, ...outcome, ...more });
    entry.status = status;
    entry.outcome = outcome;
  }

  /** Acknowledges the former outcome again, without its state, which may be outdated. */
  #repeat(known: RememberedCommand): void {
    if (!isFinal(known.status) && !this.#running.has(known.commandId)) {
      known.status = 'failed';
      known.outcome = { error: 'the device restarted while running this command' };
    }
    this.#ack({ command_id: known.commandId, status: known.status, ...known.outcome });
  }

  #remember(entry: RememberedCommand): void {
    this.#commands.push(entry);
    // Running commands are kept: a repeat of one must not start it again.
    const excess = this.#commands.length - MAX_REMEMBERED;
    if (excess <= 0) return;
    const oldest = this.#commands.filter(({ commandId }) => !this.#running.has(commandId)).slice(0, excess);
    this.#commands = this.#commands.filter((command) => command === entry || !oldest.includes(command));
  }
}

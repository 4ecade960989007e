import { setTimeout as after } from 'node:timers/promises';
import { NoSuchActor, type VolatileOutputHandler } from '../../actors/contract.ts';
import { type BackoffLimits, backoffDelay } from '../../domain/backoff.ts';
import { referenceOf } from '../../domain/clock.ts';
import type { Lease } from '../../domain/lease.ts';
import type { Log } from '../../domain/log.ts';
import { type Json, SYSTEM } from '../../domain/values.ts';
import { commandParamsPlace, openParams } from '../../domain/write-only-params.ts';
import type { CommandEvent } from '../../machines/command-types.ts';
import type { DeviceContext } from '../../machines/device-types.ts';
import type { CommittedDevice } from '../../operations/devices/device-view.ts';
import type { Services } from '../../operations/operation.ts';
import { payloadHash } from '../../protocol/canonical.ts';
import { composeMessage } from '../../protocol/envelope.ts';
import type { CloudPayload } from '../../protocol/payloads.ts';
import { newNonce } from '../../protocol/signature.ts';
import { isDeviceKnownInactive, isSessionKeyValid, isTenantKnownInactive } from './device-access.ts';
import type { DeviceSession, DeviceSessionRegistry, PendingReply } from './device-session.ts';
import type { MqttMeter } from './mqtt-meter.ts';
import { encodePublish } from './packets.ts';
import { publishToUsers } from './user-publisher.ts';
import type { MqttUserSessions } from './user-session.ts';

/** The marker is reverted within 6.2 s, or the command ends by its timeout. */
const REVERT_RETRY: BackoffLimits = { firstMs: 200, maxMs: 5_000 };
const MAX_REVERT_ATTEMPTS = 6;

type CommandWrite = Parameters<VolatileOutputHandler<'command.write'>>[0];

export interface CommandWriterParts {
  services: Pick<Services, 'actors' | 'clock' | 'newId' | 'open'>;
  devices: DeviceSessionRegistry;
  userSessions: MqttUserSessions;
  lease: Lease;
  meter: MqttMeter;
  log: Log;
}

/** Writes messages to devices on `cmd`: each to the one session it is meant for, signed when it is written. */
export class CommandWriter {
  readonly #parts: CommandWriterParts;

  constructor(parts: CommandWriterParts) {
    this.#parts = parts;
  }

  /** Sends a `hello_ack` or an `error` if `cmd` is subscribed; otherwise queues it for the subscription. */
  send(session: DeviceSession, requestId: string, content: PendingReply['content']): void {
    if (session.commandQos === null) session.queueReply({ content, requestId });
    else this.#write(session, content, this.#parts.services.newId(), requestId);
  }

  /** Sends the replies that were queued for the subscription. */
  sendPending(session: DeviceSession): void {
    for (const { content, requestId } of session.takePendingReplies()) this.send(session, requestId, content);
  }

  /**
   * Handles `command.write`: the write, and the session it goes to, are committed. Checks again that the write is
   * allowed, and reverts the command's write marker if no byte was sent.
   */
  readonly onCommandWrite = (output: CommandWrite): void => {
    const { actors } = this.#parts.services;
    const device = actors.peek<DeviceContext>({ kind: 'device', id: output.deviceId });
    if (device !== undefined) {
      this.#writeOrUndo(output, this.#isWriteAllowed(output, device));
      return;
    }
    // The device of an open session is rarely not in memory.
    actors.read<DeviceContext>({ kind: 'device', id: output.deviceId }).then(
      (device) => {
        const { deviceId, tenantId } = output;
        this.#writeOrUndo(
          output,
          this.#isWriteAllowed(output, device) && !isDeviceKnownInactive(actors, deviceId, tenantId),
        );
      },
      (error: unknown) => {
        this.#parts.log.warn(
          { err: error, commandId: output.commandId },
          'device read failed; reverting command write marker',
        );
        void this.#revertMarker(output);
      },
    );
  };

  /** Whether the key that opened the session is still valid. */
  #isWriteAllowed({ deviceId, tenantId }: CommandWrite, device: CommittedDevice | null): boolean {
    const session = this.#parts.devices.get(deviceId);
    return session !== undefined && isSessionKeyValid(device, { tenantId, keyVersion: session.keyVersion });
  }

  #writeOrUndo(output: CommandWrite, active: boolean): void {
    try {
      if (active && this.#writeCommand(output)) return;
    } catch (error) {
      this.#parts.log.error(
        { err: error, commandId: output.commandId },
        'command write failed; reverting write marker',
      );
    }
    void this.#revertMarker(output);
  }

  #writeCommand(output: CommandWrite): boolean {
    const { services, devices, lease } = this.#parts;
    const { message } = output;
    const shown = {
      command_id: output.commandId,
      action: message.action,
      params: message.params,
      issued_at: message.issuedAt,
      expires_at: message.expiresAt,
    };
    const { sealedParams, supplement } = message;
    const isSealed = sealedParams !== undefined;
    const params = isSealed ? openParams(services, sealedParams, commandParamsPlace(output.commandId)) : message.params;
    const payload = isSealed || supplement ? { ...shown, params: { ...params, ...supplement } } : shown;
    const session = devices.get(output.deviceId);
    const now = services.clock.now();
    return (
      lease.valid() &&
      message.expiresAt > now &&
      session?.clientId === output.sessionId &&
      session.tenantId === output.tenantId &&
      session.expiresAt > now &&
      !isTenantKnownInactive(services.actors, output.tenantId) &&
      this.#write(session, { type: 'cmd', payload }, message.messageId, message.requestId, { payload: shown, isSealed })
    );
  }

  /**
   * False if no byte of it was or will be sent. `shown` is what subscribed users receive, if it is not the device's
   * payload; `isSealed`: the payload for the device has values that they must not be able to guess.
   */
  #write(
    session: DeviceSession,
    content: CloudPayload,
    messageId: string,
    requestId: string,
    shown: { payload: CloudPayload['payload']; isSealed: boolean } = { payload: content.payload, isSealed: false },
  ): boolean {
    const { services, userSessions, meter } = this.#parts;
    if (session.commandQos === null || session.ended) return false;
    const text = composeMessage({
      deviceId: session.deviceId,
      tenantId: session.tenantId,
      clientId: session.sentClientId,
      messageId,
      requestId,
      sequence: session.sequence + 1,
      timestamp: referenceOf(services.clock),
      nonce: newNonce(),
      type: content.type,
      payload: content.payload as unknown as Json & object,
      keyVersion: session.keyVersion,
      key: session.cloudKey,
    });
    const packetId = session.commandQos === 1 ? session.nextPacketId() : null;
    if (!session.connection.send(encodePublish(session.commandFilter, text, packetId))) return false;
    session.sequence += 1;
    if (content.type === 'hello_ack') session.acknowledgeHello();
    meter.written(content.type);
    const payload = shown.payload === content.payload ? text : withPayload(text, shown);
    publishToUsers(userSessions, { tenantId: session.tenantId, topic: session.commandTopic, payload, qos: 1 });
    return true;
  }

  /** Reverts the write marker; retries while the runtime or the store is unavailable, then leaves it to the timeout. */
  async #revertMarker(output: CommandWrite): Promise<void> {
    const { services, meter, log } = this.#parts;
    const { commandId, sessionId } = output;
    meter.undone();
    const event: CommandEvent = { type: 'write.undone', at: services.clock.now(), sessionId };
    for (let failures = 0; failures < MAX_REVERT_ATTEMPTS; failures++) {
      if (failures > 0) await after(backoffDelay(failures, REVERT_RETRY), undefined, { ref: false });
      try {
        await services.actors.send({ kind: 'command', id: commandId }, event);
        await this.#offerToCurrentSession(output);
        return;
      } catch (error) {
        if (error instanceof NoSuchActor) return;
        log.warn({ err: error, commandId }, 'command write marker not reverted');
      }
    }
  }

  /**
   * Offers the command to the session that replaced the one it was meant for: that session reported its subscription
   * before the marker was reverted, and will not report it again.
   */
  async #offerToCurrentSession({ commandId, deviceId, sessionId }: CommandWrite): Promise<void> {
    const { services, devices } = this.#parts;
    const session = devices.get(deviceId);
    if (session === undefined || session.clientId === sessionId || session.commandQos === null || session.ended) return;
    const event: CommandEvent = {
      type: 'session.ready',
      at: services.clock.now(),
      by: SYSTEM,
      sessionId: session.clientId,
    };
    await services.actors.send({ kind: 'command', id: commandId }, event);
  }
}

/**
 * The text of a message with another payload. Hash and signature remain those of the device's message: signing the copy
 * would make a second valid message with the same sequence number. With a sealed value both are replaced: a short value
 * could be found by trying all of them.
 */
const withPayload = (
  text: string,
  { payload, isSealed }: { payload: CloudPayload['payload']; isSealed: boolean },
): string =>
  JSON.stringify({
    ...JSON.parse(text),
    ...(isSealed && { payload_hash: payloadHash(payload as unknown as Json), signature: '' }),
    payload,
  });

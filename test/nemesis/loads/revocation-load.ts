import { randomUUID } from 'node:crypto';
import type { Device } from '../../../src/device/device.ts';
import { connect, register } from '../../support/device.ts';
import type { ApiResponse } from '../../support/service.ts';
import { answerOf, CyclicLoad, deviceOptions, type NodeClients, type Owner } from './load.ts';

/** Of the oracle: the response of a revocation of the device has arrived. */
type RecordAnswer = (deviceId: string) => Promise<unknown>;

/**
 * A device that is commanded, revoked and reinstated with a new key. From the response of a revocation to the request of
 * the reinstatement no node accepts a command or reads the device as active. The oracle compares what is written to it.
 */
export class RevocationLoad extends CyclicLoad {
  readonly #registered: ApiResponse['body'];
  readonly #recordAnswer: RecordAnswer;
  #device: Device | null = null;
  #received = 0;

  private constructor(registered: ApiResponse['body'], nodes: NodeClients, recordAnswer: RecordAnswer) {
    super(nodes);
    this.#registered = registered;
    this.#recordAnswer = recordAnswer;
  }

  static async start(owner: Owner, nodes: NodeClients, recordAnswer: RecordAnswer): Promise<RevocationLoad> {
    const load = new RevocationLoad(await register(owner, { device_type: 'light' }), nodes, recordAnswer);
    await load.#connect(load.#registered);
    load.start();
    return load;
  }

  async #connect(registered: ApiResponse['body']): Promise<void> {
    const handle = (params: object) => ({ state: { on: true, brightness: (params as { level: number }).level } });
    const device = await connect(
      registered,
      { ...deviceOptions, commands: { set_brightness: handle } },
      { online: false },
    );
    device.on('command', () => {
      this.#received += 1;
    });
    this.#device = device;
  }

  #command(timeout_s = 60): Promise<ApiResponse> {
    const path = `/v1/device/${this.#registered.device_id}/command`;
    return this.node.post(path, { action: 'set_brightness', params: { level: 1 }, timeout_s });
  }

  protected async cycle(): Promise<void> {
    const { device_id: id } = this.#registered;
    for (let n = 0; n < 5; n++) if ((await this.until(202, () => this.#command())) === null) return;
    // Commands that are in progress while the device is revoked.
    const racing = [1, 2, 3].map(() => answerOf(this.#command()));
    // Without a key, a request that was given up could revoke the device again after its reinstatement.
    const headers = { 'idempotency-key': randomUUID() };
    const revoke = () => this.node.post(`/v1/device/${id}/revoke`, undefined, headers);
    if ((await this.until(200, revoke)) === null) return;
    await this.#recordAnswer(id);
    await Promise.all(racing);
    for (let n = 0; n < 4; n++) await this.#assertRevoked(id);
    await this.#device?.close(0);
    await this.#reinstate(id);
  }

  /** A request that is not answered in time may be executed after the reinstatement, so it is not compared. */
  async #assertRevoked(id: string): Promise<void> {
    const answer = await answerOf(this.#command());
    if (answer?.status === 202) this.violations.push(`a command was accepted for device ${id} after its revocation`);
    const read = await answerOf(this.node.get(`/v1/devices/${id}`));
    if (read?.status === 200 && !read.body.device.revoked) this.staleReads.push(`device ${id} is not revoked`);
  }

  /** A reinstatement whose response was lost is repeated with its key, and then has the same secret. */
  async #reinstate(id: string): Promise<void> {
    const answer = await this.keyed(`/v1/device/${id}/reinstate`, 200, { reason: 'found again' });
    if (answer === null) return;
    const { new_secret: device_secret, key_version } = answer.body;
    await this.#connect({ ...this.#registered, device_secret, key_version });
  }

  async verify(): Promise<void> {
    if (this.#received === 0) this.violations.push('no command was received by the device that is revoked');
  }

  async close(): Promise<void> {
    await this.#device?.close(0);
  }
}

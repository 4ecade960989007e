import { expect, it } from 'vitest';
import { MqttAuthenticator } from '../../../src/edges/mqtt/mqtt-authenticator.ts';
import { defaultMqttLimits } from '../../../src/edges/mqtt/mqtt-limits.ts';

it('certificates from a network with too many failed sign-ins are not looked up; another network is served', async () => {
  const lookedUp: string[] = [];
  const authenticator = new MqttAuthenticator({
    certificateSignIn: {
      authenticate: async ({ address }: { address: string }) => {
        lookedUp.push(address);
        return null;
      },
    },
    limits: { ...defaultMqttLimits, failedSignInsPerMinute: 1 },
    log: { debug() {}, info() {}, warn() {}, error() {} },
  } as never);
  const signIn = (address: string) =>
    authenticator.signIn(
      { clean: true, will: false, username: undefined, clientId: 's', certificateClientId: 'c' } as never,
      { address, certificate: Buffer.from('certificate') } as never,
    );
  const [one, other] = ['192.0.2.1', '198.51.100.1'];
  expect([await signIn(one), await signIn(one), await signIn(one), await signIn(other)]).toEqual([
    ...['refused', 'unavailable', 'unavailable', 'refused'],
  ]);
  expect(lookedUp).toEqual([one, other]);
});

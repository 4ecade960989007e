import { z } from 'zod';
import { caStatuses, type DeviceCa } from '../../domain/device-ca.ts';
import { memberRoleSchema } from '../../domain/enum-schemas.ts';
import { iso } from '../../domain/iso-time.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import { isoTime } from '../inputs.ts';
import type { Services } from '../operation.ts';

const registration = z
  .object({
    home_id: uuid,
    room_id: uuid.nullable(),
    device_type: z.string(),
    subject_pattern: z.string().nullable(),
    max_devices: z.int(),
    set_by: uuid.meta({ description: 'The user who set the rule' }),
    set_at: isoTime.nullable().meta({ description: 'Null for a rule that was set before this was recorded' }),
    set_by_role: memberRoleSchema.nullable().meta({
      description:
        'The role that this user has now; null if they are no longer a member. The rule applies whatever role it is',
    }),
  })
  .meta({ id: 'DeviceCaRegistration' });

export const deviceCaView = z
  .object({
    id: uuid,
    name: z.string(),
    status: z.enum(caStatuses),
    subject: z.string(),
    fingerprint: z.string().meta({ description: 'SHA-256 of the certificate, hex' }),
    not_after: isoTime,
    certificate: z.string().meta({ description: 'PEM' }),
    registration: registration.nullable().meta({
      description:
        'How a device with a certificate of the CA is registered at its first connection; null: it is refused',
    }),
    bound_devices: z.int().meta({ description: 'Devices that a common name in certificates of the CA is bound to' }),
    created_by: uuid,
    created_at: isoTime,
  })
  .meta({ id: 'DeviceCa' });

type DeviceCaView = z.infer<typeof deviceCaView>;
type SetByRole = NonNullable<DeviceCaView['registration']>['set_by_role'];

/** The answer about a CA, with the role that the user who set its rule has now, and the number of its devices. */
export async function viewOfCa({ store }: Pick<Services, 'store'>, one: DeviceCa): Promise<DeviceCaView> {
  const { registration: rule } = one;
  const [setter, boundDevices] = await Promise.all([
    rule && store.identity.user(rule.setBy),
    store.deviceCas.countDevices(one.id),
  ]);
  const setByRole = setter?.tenantId === one.tenantId ? (setter.role as SetByRole) : null;
  return {
    ...{ id: one.id, name: one.name, status: one.status, subject: one.subject, fingerprint: one.fingerprint },
    ...{ not_after: iso(one.notAfter), certificate: one.certificate },
    registration: rule && {
      ...{ home_id: rule.homeId, room_id: rule.roomId, device_type: rule.deviceType },
      ...{ subject_pattern: rule.subjectPattern, max_devices: rule.maxDevices, set_by: rule.setBy },
      ...{ set_at: rule.setAt === undefined ? null : iso(rule.setAt), set_by_role: setByRole },
    },
    ...{ bound_devices: boundDevices, created_by: one.createdBy, created_at: iso(one.createdAt) },
  };
}

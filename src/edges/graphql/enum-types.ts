import { GraphQLEnumType } from 'graphql';
import { constantCase } from './casing.ts';

/** Names of enums that several schemas share. Each is recognised by values that no other enum has together. */
const shared: Readonly<Record<string, readonly string[]>> = {
  PlanStepVerdictCode: ['allowed', 'dry_run_required'],
  RefusalCode: ['VALIDATION_FAILED', 'NOT_FOUND'],
  Role: ['none', 'owner'],
  MemberRole: ['viewer', 'owner'],
  SigningAlg: ['hmac-sha256'],
  DeviceCategory: ['light', 'lock'],
  CommandStatus: ['submitted', 'timed_out'],
  VerificationStatus: ['verified'],
  TargetStatus: ['dispatched', 'dry_run_required'],
  SafetyClass: ['NORMAL', 'CRITICAL'],
  PlanStatus: ['rolled_back'],
  PlanStepStatus: ['compensated'],
  FailureWay: ['rollback', 'stop'],
  Confirmer: ['another_principal'],
  MemoryKind: ['observation', 'routine'],
  FirmwareStatus: ['draft', 'withdrawn'],
  ActorKind: ['device', 'command', 'tenant'],
  Flag: ['maintenance_mode'],
  ServiceState: ['operational', 'maintenance'],
  PartStatus: ['operational', 'degraded'],
};

/** Enum types, one per list of values. An enum that is not in `shared` is named after the place where it first occurs. */
export class Enums {
  private readonly types = new Map<string, GraphQLEnumType>();

  of(values: readonly string[], place: string): GraphQLEnumType {
    const key = values.join('|');
    const existing = this.types.get(key);
    if (existing !== undefined) return existing;
    const [name = place] =
      Object.entries(shared).find(([, marks]) => marks.every((mark) => values.includes(mark))) ?? [];
    const type = new GraphQLEnumType({
      name,
      values: Object.fromEntries(values.map((value) => [constantCase(value), { value }])),
    });
    this.types.set(key, type);
    return type;
  }
}

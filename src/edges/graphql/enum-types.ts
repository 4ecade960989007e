import { GraphQLEnumType } from 'graphql';
import { constantCase } from './casing.ts';

/** Names of closed lists of words that stand in several places, by words that only they have all of. */
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

/** One type for each list of words, wherever it stands; one that has no name of its own is named by its first place. */
export class Enums {
  private readonly made = new Map<string, GraphQLEnumType>();

  of(values: readonly string[], place: string): GraphQLEnumType {
    const key = values.join('|');
    const known = this.made.get(key);
    if (known !== undefined) return known;
    const [name = place] =
      Object.entries(shared).find(([, marks]) => marks.every((mark) => values.includes(mark))) ?? [];
    const type = new GraphQLEnumType({
      name,
      values: Object.fromEntries(values.map((value) => [constantCase(value), { value }])),
    });
    this.made.set(key, type);
    return type;
  }
}

import { Link } from 'wouter';
import { isCanonicalUuid } from '../../../src/domain/uuid.ts';
import type { Json, JsonObject } from '../../../src/domain/values.ts';
import type { ActorKind } from '../../../src/machines/outputs.ts';
import { useChosenTenant, withTenant } from '../platform/tenant-choice.tsx';
import { abbreviateId, humanize } from '../ui/text-format.ts';
import { Time } from '../ui/time.tsx';
import { actorHref, idSuffix } from './actor-display.ts';

/** Members that are the ID of another actor. */
const actorReferences: Readonly<Record<string, ActorKind>> = {
  device_id: 'device',
  command_id: 'command',
  plan_id: 'plan',
  tenant_id: 'tenant',
};

const ISO = /^\d{4}-\d\d-\d\dT[\d:.]+Z$/;

/** Context of an actor, without secrets. Empty members are left out. */
export function ActorContext({ context }: { context: JsonObject | null }) {
  if (context === null)
    return <p className="quiet">The stored context does not fit any machine version of this service.</p>;
  return <Members object={context} />;
}

function Members({ object }: { object: JsonObject }) {
  const members = Object.entries(object).filter(([, value]) => !isEmpty(value));
  return (
    <dl className="context">
      {members.map(([name, value]) => (
        <div key={name} className={isObject(value) || Array.isArray(value) ? 'nested' : ''}>
          <dt>{humanize(name)}</dt>
          <dd>
            <Value name={name} value={value} />
          </dd>
        </div>
      ))}
    </dl>
  );
}

const isObject = (value: Json): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const isEmpty = (value: Json): boolean =>
  value === null ||
  (isObject(value) ? Object.values(value).every(isEmpty) : Array.isArray(value) && value.length === 0);

function Value({ name, value }: { name: string; value: Json }) {
  if (isObject(value)) return <Members object={value} />;
  if (Array.isArray(value)) {
    return (
      <ol>
        {value.map((item, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: list values have no other key
          <li key={index}>
            <Value name={name} value={item} />
          </li>
        ))}
      </ol>
    );
  }
  if (typeof value === 'string') {
    const kind = Object.hasOwn(actorReferences, name) ? actorReferences[name] : undefined;
    if (kind !== undefined) return <ActorLink kind={kind} id={value} />;
    if (isCanonicalUuid(value)) {
      return (
        <code title={value} className="quiet">
          {abbreviateId(value)}
        </code>
      );
    }
    if (ISO.test(value)) return <Time at={value} />;
    return <span className="text">{value}</span>;
  }
  return <code>{JSON.stringify(value)}</code>;
}

function ActorLink({ kind, id }: { kind: ActorKind; id: string }) {
  const tenant = useChosenTenant();
  return <Link href={withTenant(actorHref(kind, id), tenant)}>{`${kind} …${idSuffix(id)}`}</Link>;
}

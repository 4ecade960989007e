import { Link } from 'wouter';
import type { getManifest } from '../../../src/operations/devices/manifests.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { useGet } from '../api/queries.ts';
import { useSession } from '../session.tsx';
import { Empty, LoadError, Loading, Pill } from '../ui/feedback.tsx';
import { Table } from '../ui/table.tsx';
import { humanize, sentenceCase } from '../ui/text-format.ts';

export type ManifestRecord = ResponseBody<typeof getManifest>;
export type CapabilityRecord = ManifestRecord['capabilities'][number];

export const manifestPath = (id: string): string => `/v1/devices/${id}/manifest`;

const tones = { NORMAL: 'quiet', CRITICAL: 'warn', RESTRICTED: 'bad' } as const;

export const SafetyPill = ({ of }: { of: CapabilityRecord['safetyClass'] }) => (
  <Pill tone={tones[of]}>{of.toLowerCase()}</Pill>
);

/** Capability manifest of a device. */
export function DeviceManifest({ id }: { id: string }) {
  const { may } = useSession();
  const { data, error, refetch } = useGet<ManifestRecord>(manifestPath(id));
  return (
    <section className="card" aria-labelledby="manifest">
      <header>
        <h2 id="manifest">Manifest</h2>
        {data !== undefined && (
          <p className="quiet small">
            {data.category ?? 'no category'}, version {data.version}
          </p>
        )}
        {may('admin') && (data !== undefined || error?.status === 404) && (
          <Link className="button" href={`/devices/${id}/manifest`}>
            Edit manifest
          </Link>
        )}
      </header>
      {data === undefined ? (
        error === null ? (
          <Loading what="Loading manifest" />
        ) : error.status === 404 ? (
          <Empty icon="policy" title="No manifest: the device accepts no commands.">
            {may('admin') ? 'Add one, so that it does.' : 'An admin can add one.'}
          </Empty>
        ) : (
          <LoadError problem={error} retry={refetch} />
        )
      ) : (
        <Table label="Capabilities" columns={['Action', 'Parameters', 'Safety class', 'Verified by']}>
          {data.capabilities.map((capability) => (
            <tr key={capability.action}>
              <th scope="row">
                {sentenceCase(capability.action)}
                <p className="quiet small what">{capability.description}</p>
              </th>
              <td>{paramNames(capability).map(humanize).join(', ') || '—'}</td>
              <td>
                <SafetyPill of={capability.safetyClass} />
              </td>
              <td>
                {Object.keys(capability.expectedState ?? {})
                  .map(humanize)
                  .join(', ') || '—'}
              </td>
            </tr>
          ))}
        </Table>
      )}
      {data?.properties !== undefined && <ReportedProperties of={data.properties} />}
    </section>
  );
}

const ReportedProperties = ({ of }: { of: NonNullable<ManifestRecord['properties']> }) => (
  <Table label="Reported properties" columns={['Property', 'Name', 'Unit', 'History']}>
    {Object.entries(of).map(([path, { label, unit, history = 'every', deadband }]) => (
      <tr key={path}>
        <th scope="row" className="mono">
          {path}
        </th>
        <td>{label ?? '—'}</td>
        <td>{unit ?? '—'}</td>
        <td>{deadband === undefined ? historyTexts[history] : `changes by more than ${deadband}`}</td>
      </tr>
    ))}
  </Table>
);

const historyTexts = { every: 'every report', change: 'changes', off: 'off' } as const;

export const paramNames = ({ paramSchema }: CapabilityRecord): string[] => {
  const { properties } = paramSchema;
  return typeof properties === 'object' && properties !== null ? Object.keys(properties) : [];
};

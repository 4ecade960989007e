import { useId, useState } from 'react';
import type { listReleases } from '../../../src/operations/firmware/firmware.ts';
import type { getFirmwareSigning } from '../../../src/operations/firmware/firmware-signing.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { useChange, useGet } from '../api/queries.ts';
import { useSession } from '../session.tsx';
import { ConfirmButton } from '../ui/confirm-button.tsx';
import { ChangeError, Empty, LoadError, Loading, Pill } from '../ui/feedback.tsx';
import { Table } from '../ui/table.tsx';
import { Time } from '../ui/time.tsx';
import { NewRelease } from './new-release.tsx';
import './administration.css';

type Release = ResponseBody<typeof listReleases>['releases'][number];
type Signing = ResponseBody<typeof getFirmwareSigning>['signing'];

const FIRMWARE = '/v1/firmware';

const tones = { draft: 'info', released: 'good', withdrawn: 'quiet' } as const;

/** Firmware releases and their rollout. */
export function FirmwarePage() {
  const { may } = useSession();
  const { data, error, refetch } = useGet<ResponseBody<typeof listReleases>>(`${FIRMWARE}?limit=200`);
  const signing = useGet<ResponseBody<typeof getFirmwareSigning>>(`${FIRMWARE}/signing`).data?.signing;
  return (
    <>
      <header className="page-head">
        <div>
          <h1>Firmware</h1>
          <p className="quiet">
            Upload a file to a draft, release it to some or all devices, and withdraw it if necessary.
            {signing?.signature_required && ' Releases need a signature of a registered firmware key.'}
          </p>
        </div>
        {may('admin') && <NewRelease />}
      </header>
      {data === undefined ? (
        error === null ? (
          <Loading what="Loading releases" />
        ) : (
          <LoadError problem={error} retry={refetch} />
        )
      ) : data.releases.length === 0 ? (
        <Empty icon="firmware" title="No firmware yet.">
          {may('admin')
            ? 'Create a draft, then upload the file for the devices.'
            : 'An admin can create the first release.'}
        </Empty>
      ) : (
        <section className="card" aria-label="Releases">
          <Table
            label="Firmware releases"
            columns={['Version', 'Device type', 'Status', 'Rollout', 'File', ...(may('admin') ? ['Actions'] : [])]}
          >
            {data.releases.map((release) => (
              <tr key={release.id}>
                <th scope="row">
                  {release.version}
                  {release.notes !== null && <p className="quiet small what">{release.notes}</p>}
                </th>
                <td>{release.device_type}</td>
                <td>
                  <Pill tone={tones[release.status]}>{release.status}</Pill>
                  <p className="quiet small what">
                    <Time at={release.released_at ?? release.created_at} />
                  </p>
                </td>
                <td>{release.status === 'released' ? `${release.rollout_percent} %` : '—'}</td>
                <td>
                  {release.checksum === null ? (
                    <span className="quiet">none yet</span>
                  ) : (
                    <span className="mono quiet small" title={`SHA-256 ${release.checksum}`}>
                      {release.checksum.slice(0, 12)}…
                    </span>
                  )}
                  {release.key_id !== null && <SignedBy keyId={release.key_id} signing={signing} />}
                </td>
                {may('admin') && (
                  <td>
                    <Changes of={release} signing={signing} />
                  </td>
                )}
              </tr>
            ))}
          </Table>
          {data.next_cursor !== null && <p className="quiet">Only the newest 200 releases are shown.</p>}
        </section>
      )}
    </>
  );
}

/** The key that verified the signature, by its name as long as it is registered. */
function SignedBy({ keyId, signing }: { keyId: string; signing: Signing | undefined }) {
  const key = signing?.keys.find(({ key_id }) => key_id === keyId);
  return (
    <p className="quiet small what" title={`Firmware key ${keyId}`}>
      Signed by {key?.name ?? `${keyId.slice(0, 8)}…`}
      {key === undefined && signing !== undefined && ' (removed key)'}
    </p>
  );
}

interface ChangesProps {
  of: Release;
  signing: Signing | undefined;
}

function Changes({ of: release, signing }: ChangesProps) {
  const { id, version, status, checksum } = release;
  if (status === 'withdrawn') return null;
  return (
    <div className="row-actions">
      {status === 'draft' && <Upload of={release} />}
      {checksum !== null && <Rollout of={release} signing={signing} />}
      <ConfirmButton
        label="Withdraw"
        about={version}
        title={`Withdraw ${version}?`}
        confirmLabel="Withdraw release"
        change={{ method: 'POST', path: `${FIRMWARE}/${id}/withdraw`, body: {} }}
        stalePaths={[FIRMWARE]}
      >
        <p>
          Devices can no longer find or download this release. This cannot be undone. Devices that installed it keep it.
        </p>
      </ConfirmButton>
    </div>
  );
}

function Rollout({ of: release, signing }: ChangesProps) {
  const { id, version, status, rollout_percent, device_type, signature } = release;
  const [percent, setPercent] = useState(rollout_percent);
  const [given, setGiven] = useState('');
  const [bytes, setBytes] = useState('');
  const [rangeId, signatureId, sizeId] = [useId(), useId(), useId()];
  const asksForSignature = status === 'draft' && signature === null && signing?.signature_required === true;
  // The service knows the size of an uploaded file; a signature of a file at a URL needs it as well.
  const asksForSize = asksForSignature && release.size === null;
  const body = {
    rollout_percent: percent,
    ...(given.trim() !== '' && { signature: given.trim() }),
    ...(asksForSize && bytes !== '' && { size: Number(bytes) }),
  };
  return (
    <ConfirmButton
      label={status === 'draft' ? 'Release' : 'Roll out'}
      about={version}
      title={`Release ${version} for ${device_type}`}
      confirmLabel={`Release to ${percent} %`}
      tone="primary"
      change={{ method: 'POST', path: `${FIRMWARE}/${id}/release`, body }}
      stalePaths={[FIRMWARE]}
    >
      <label htmlFor={rangeId}>Share of devices</label>
      <input
        id={rangeId}
        type="range"
        min={0}
        max={100}
        value={percent}
        onChange={({ target }) => setPercent(Number(target.value))}
      />
      <p className="quiet small">
        {percent} % of the devices of this type. A device keeps its place in the rollout order.
      </p>
      {asksForSignature && (
        <>
          <label htmlFor={signatureId}>Signature</label>
          <input
            id={signatureId}
            className="mono"
            autoComplete="off"
            spellCheck={false}
            maxLength={200}
            value={given}
            onChange={({ target }) => setGiven(target.value)}
          />
          <p className="quiet small">As printed by “twinkeep firmware sign”, where the private key is.</p>
          {asksForSize && (
            <>
              <label htmlFor={sizeId}>Size of the file at the URL (bytes)</label>
              <input
                id={sizeId}
                type="number"
                className="short"
                min={1}
                step={1}
                value={bytes}
                onChange={({ target }) => setBytes(target.value)}
              />
            </>
          )}
        </>
      )}
    </ConfirmButton>
  );
}

function Upload({ of: { id, version, checksum } }: { of: Release }) {
  const upload = useChange([FIRMWARE]);
  const fileId = useId();
  return (
    <>
      <label htmlFor={fileId} className="button upload">
        {upload.isPending ? 'Uploading …' : checksum === null ? 'Upload file' : 'Replace file'}
        <span className="unseen"> of {version}</span>
        <input
          id={fileId}
          type="file"
          className="unseen"
          disabled={upload.isPending}
          onChange={({ target }) => {
            const file = target.files?.[0];
            if (file) upload.mutate({ method: 'PUT', path: `${FIRMWARE}/${id}/artifact`, file });
            target.value = '';
          }}
        />
      </label>
      <ChangeError error={upload.error} />
    </>
  );
}

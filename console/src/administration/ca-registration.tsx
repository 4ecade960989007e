import { type FormEvent, useId, useState } from 'react';
import type { beginCaRegistration } from '../../../src/operations/device-cas/device-cas.ts';
import type { listHomes } from '../../../src/operations/homes/homes.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { useChange, useGet } from '../api/queries.ts';
import { Dialog } from '../ui/dialog.tsx';
import { ChangeError } from '../ui/feedback.tsx';
import { Time } from '../ui/time.tsx';
import { readCertificate } from './certificate-file.ts';

const CAS = '/v1/cas';

interface RegisterCaProps {
  /** A registered CA to renew; without one, a new CA is registered. */
  renewed?: { name: string; subject: string };
}

/** A button with the dialog that registers a CA, or renews its certificate: both need a proof for a new code. */
export function RegisterCa({ renewed }: RegisterCaProps) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <button
        type="button"
        className={renewed === undefined ? 'button primary' : 'button'}
        {...(renewed !== undefined && { 'aria-label': `Renew … ${renewed.name}` })}
        onClick={() => setOpen(true)}
      >
        {renewed === undefined ? 'Register CA …' : 'Renew …'}
      </button>
      {open && <RegistrationDialog renewed={renewed} onClose={() => setOpen(false)} />}
    </>
  );
}

interface RegistrationDialogProps {
  renewed: RegisterCaProps['renewed'];
  onClose(): void;
}

function RegistrationDialog({ renewed, onClose: close }: RegistrationDialogProps) {
  const register = useChange([CAS]);
  const [unreadable, setUnreadable] = useState<Error | null>(null);
  const [caId, proofId] = [useId(), useId()];
  const send = async (event: FormEvent<HTMLFormElement>): Promise<void> => {
    event.preventDefault();
    const given = new FormData(event.currentTarget);
    register.reset();
    try {
      setUnreadable(null);
      const certificate = await readCertificate(given.get('ca'), 'CA certificate');
      const proof = await readCertificate(given.get('proof'), 'verification certificate');
      const name = renewed?.name ?? given.get('name');
      const body = { name, certificate, verification_certificate: proof, registration: ruleIn(given) };
      register.mutate({ method: 'POST', path: CAS, body }, { onSuccess: close });
    } catch (error) {
      setUnreadable(error as Error);
    }
  };
  return (
    <Dialog title={renewed === undefined ? 'Register a CA' : `Renew ${renewed.name}`} onClose={close}>
      {renewed !== undefined && (
        <p>
          The new certificate needs the key and the subject of the registered one ({renewed.subject}). Rule, devices and
          revocations stay, and devices stay connected.
        </p>
      )}
      <VerificationCode />
      <form onSubmit={(event) => void send(event)}>
        {renewed === undefined && <NameField />}
        <label htmlFor={caId}>CA certificate (PEM)</label>
        <input id={caId} name="ca" type="file" accept=".pem,.crt,.cer" required />
        <label htmlFor={proofId}>Verification certificate (PEM)</label>
        <input id={proofId} name="proof" type="file" accept=".pem,.crt,.cer" required />
        {renewed === undefined && <RuleFields />}
        <ChangeError error={unreadable ?? register.error} />
        <div className="actions">
          <button type="button" className="button" onClick={close}>
            Cancel
          </button>
          <button type="submit" className="button primary" disabled={register.isPending}>
            {renewed === undefined ? 'Register CA' : 'Renew CA'}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

/** Issues a verification code when the user asks for it: a tenant has a limited number of them. */
function VerificationCode() {
  const begin = useChange<ResponseBody<typeof beginCaRegistration>>();
  const issued = begin.data;
  return (
    <>
      <p>
        The verification certificate proves that you have the key of the CA: the CA issues it for a code, which is the
        common name (CN) of its subject.
      </p>
      {issued === undefined ? (
        <button
          type="button"
          className="button"
          disabled={begin.isPending}
          onClick={() => begin.mutate({ method: 'POST', path: `${CAS}/verifications`, body: {} })}
        >
          Get a code
        </button>
      ) : (
        <>
          <code className="secret">{issued.verification_code}</code>
          <p className="quiet small" role="status">
            For one registration, until <Time at={issued.expires_at} />.
          </p>
        </>
      )}
      <ChangeError error={begin.error} />
    </>
  );
}

function NameField() {
  const id = useId();
  return (
    <>
      <label htmlFor={id}>Name</label>
      <input id={id} name="name" required maxLength={100} autoComplete="off" placeholder="e.g. Factory" />
    </>
  );
}

/** The rule that registers unknown devices; none unless a home is selected. */
function RuleFields() {
  const homes = useGet<ResponseBody<typeof listHomes>>('/v1/homes?limit=200').data?.homes ?? [];
  const [home, setHome] = useState('');
  const [homeId, typeId, patternId] = [useId(), useId(), useId()];
  return (
    <>
      <label htmlFor={homeId}>Register unknown devices into</label>
      <select id={homeId} name="home" value={home} onChange={({ target }) => setHome(target.value)}>
        <option value="">no home: only bound devices sign in</option>
        {homes.map(({ id, home_name }) => (
          <option key={id} value={id}>
            {home_name}
          </option>
        ))}
      </select>
      {home !== '' && (
        <>
          <label htmlFor={typeId}>Device type</label>
          <input
            id={typeId}
            name="device_type"
            required
            maxLength={64}
            autoComplete="off"
            placeholder="e.g. smart_light"
          />
          <label htmlFor={patternId}>Common names (optional)</label>
          <input id={patternId} name="pattern" maxLength={100} autoComplete="off" placeholder="e.g. lamp-*" />
        </>
      )}
    </>
  );
}

function ruleIn(given: FormData): object | null {
  const text = (name: string): string => `${given.get(name) ?? ''}`.trim();
  if (text('home') === '') return null;
  const pattern = text('pattern');
  return {
    ...{ home_id: text('home'), device_type: text('device_type') },
    ...(pattern !== '' && { subject_pattern: pattern }),
  };
}

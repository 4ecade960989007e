import type { ChangePreview } from '../../domain/change-request.ts';
import { type FirmwareSigning, isSignedByKey } from '../../domain/firmware-signing.ts';
import { payloadHash } from '../../protocol/canonical.ts';
import type { FirmwareRelease } from '../../store/contract/firmware.ts';
import type { Services } from '../operation.ts';
import { firmwarePreview } from './firmware-facts.ts';

// What a release changes, for its confirmation.

/** Identifies what is released, to how many devices, and the keys that count as its signers before and after. */
export function releaseBase(signing: FirmwareSigning, before: FirmwareRelease, after: FirmwareRelease): string {
  const { status, rolloutPercent, url, checksum, artifact, size, signature } = before;
  const signers = [before, after].map((one) => (isSignedByKey(signing, one) ? one.signatureKeyId : null));
  const named = { status, rolloutPercent, url, checksum, artifact: artifact?.name ?? null, size, signature, signers };
  return `firmware:${payloadHash(named)}`;
}

/**
 * The effect of a release; null if no more devices install it than before. A signature that a registered key verifies is an
 * effect also where none is required, because devices that were built with the key refuse a release without it.
 */
export function releasePreview(
  { artifacts }: Pick<Services, 'artifacts'>,
  signing: FirmwareSigning,
  before: FirmwareRelease,
  after: FirmwareRelease,
): ChangePreview | null {
  const isNew = before.status === 'draft';
  const isSigned = isSignedByKey(signing, after);
  // Devices that were built with this key, and not with that of the signature before, install it now.
  const isSignedNow = isSigned && (!isSignedByKey(signing, before) || after.signatureKeyId !== before.signatureKeyId);
  if (!isNew && !isSignedNow && after.rolloutPercent <= before.rolloutPercent) return null;
  const { version, deviceType, rolloutPercent, checksum, signatureKeyId } = after;
  const { url_host } = firmwarePreview({ artifacts }, after);
  const offer = `Version ${version} is offered to ${rolloutPercent} % of the devices of the type ${deviceType}, from ${url_host} with the checksum ${checksum}.`;
  const signed = `Devices that need a signature install it as well: it is signed with the key ${signatureKeyId}.`;
  return {
    weaker: isSigned ? [offer, signed] : [offer],
    changes: {
      ...(isNew && { status: { from: 'draft', to: 'released' } }),
      ...((isNew || rolloutPercent !== before.rolloutPercent) && {
        rollout_percent: { from: isNew ? 0 : before.rolloutPercent, to: rolloutPercent },
      }),
      ...(isSignedNow && { key_id: { from: before.signatureKeyId, to: signatureKeyId } }),
    },
  };
}

import type { ManifestRecord } from '../devices/manifest.tsx';
import { sentenceCase } from '../ui/text-format.ts';

/** The choices of a field for an action. */
export const ActionOptions = ({ of: offered }: { of: ManifestRecord['capabilities'] }) =>
  offered.map(({ action, safetyClass }) => (
    <option key={action} value={action}>
      {sentenceCase(action)}
      {safetyClass === 'CRITICAL' ? ' (critical)' : ''}
    </option>
  ));

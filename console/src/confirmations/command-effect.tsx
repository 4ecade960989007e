import { DeviceName } from '../devices/device-name.tsx';
import { useActionUnits } from '../devices/device-units.ts';
import { ShapedBy } from '../memories/shaped-by.tsx';
import { useUserNames } from '../people/user-names.ts';
import { sentenceCase } from '../ui/text-format.ts';
import { ObjectMembers, Value, valueName } from '../ui/values.tsx';
import type { PendingConfirmation } from './pending-confirmation.ts';
import './effect.css';

type PreviewedCommand = Pick<
  PendingConfirmation,
  'action' | 'preview' | 'params' | 'device_id' | 'compensation' | 'memories'
>;

/** Expected effect of a command: reported state before and after. */
export function CommandEffect({
  of: { action, preview, params, compensation, device_id, memories },
}: {
  of: PreviewedCommand;
}) {
  const { changes, expected, firmware } = preview;
  const nameOf = useUserNames();
  const units = useActionUnits(device_id, action);
  const parameters = <ObjectMembers of={params} unitOf={units.params} />;
  return (
    <>
      {changes !== null && Object.keys(changes).length > 0 ? (
        <table className="effect">
          <caption className="unseen">Changes</caption>
          <thead>
            <tr>
              <th scope="col">Property</th>
              <th scope="col">Now</th>
              <th scope="col">
                <span className="unseen">changes to</span>
              </th>
              <th scope="col">After</th>
            </tr>
          </thead>
          <tbody>
            {Object.entries(changes).map(([name, { from, to }]) => (
              <tr key={name}>
                <th scope="row">{valueName(name)}</th>
                <td>
                  <Value of={from} path={name} unitOf={units.state} />
                </td>
                <td aria-hidden="true">→</td>
                <td className="after">
                  <Value of={to} path={name} unitOf={units.state} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      ) : (
        <p className="quiet">
          {expected === null
            ? 'The effect cannot be predicted: the action has no expected state.'
            : 'The device already reports the expected state.'}
        </p>
      )}
      {firmware !== undefined && (
        <ObjectMembers
          of={{ ...firmware, released_by: firmware.released_by === null ? null : nameOf(firmware.released_by) }}
        />
      )}
      {parameters}
      <ShapedBy memories={memories} />
      {compensation !== undefined && (
        <p className="quiet">
          Approval also covers the rollback if the plan fails: {sentenceCase(compensation.action)} on{' '}
          <DeviceName id={device_id} />
          {Object.keys(compensation.params).length > 0 && (
            <>
              {' '}
              with <Value of={compensation.params} />
            </>
          )}
          .
        </p>
      )}
    </>
  );
}

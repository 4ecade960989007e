import { type FormEvent, useId, useState } from 'react';
import type { JsonObject } from '../../../src/domain/values.ts';
import type { FormChecks } from '../commands/param-fields.tsx';
import { Dialog } from '../ui/dialog.tsx';
import { Note } from '../ui/feedback.tsx';
import { initialSizes, kindNames, type Tile, type TileKind } from './dashboard-types.ts';
import { freePlace } from './layout.ts';
import { settingsOf, TileFields, type TileSettings } from './tile-fields.tsx';

interface TileDialogProps {
  /** The tile to change; null for a new one. */
  tile: Tile | null;
  tiles: readonly Tile[];
  onSave(tile: Tile): void;
  onClose(): void;
}

/** Dialog to add or change a tile. The dashboard is stored later. */
export function TileDialog({ tile, tiles, onSave, onClose: close }: TileDialogProps) {
  const [kind, setKind] = useState<TileKind>(tile?.kind ?? 'value');
  const [title, setTitle] = useState(tile?.title ?? '');
  const [settings, setSettings] = useState<TileSettings>(() => settingsOf(tile));
  const [problem, setProblem] = useState<string | null>(null);
  const [checks] = useState<FormChecks>(() => new Set());
  const [kindId, titleId] = [useId(), useId()];
  const save = (event: FormEvent): void => {
    event.preventDefault();
    // Each one shows its errors.
    const isValid = [...checks].map((check) => check()).every((one) => one);
    if (!isValid) return;
    const content = contentOf(kind, settings);
    if (typeof content === 'string') {
      setProblem(content);
      return;
    }
    const size = initialSizes[kind];
    const place = tile ?? { id: newTileId(tiles), ...size, ...freePlace(tiles, size) };
    const { id, x, y, w, h } = place;
    onSave({ ...{ id, x, y, w, h }, ...content, ...(title.trim() !== '' && { title: title.trim() }) } as Tile);
    close();
  };
  return (
    <Dialog title={tile === null ? 'Add a tile' : 'Change a tile'} onClose={close}>
      <form onSubmit={save}>
        <label htmlFor={kindId}>Shows</label>
        <select
          id={kindId}
          value={kind}
          disabled={tile !== null}
          onChange={({ target }) => setKind(target.value as TileKind)}
        >
          {Object.entries(kindNames).map(([value, name]) => (
            <option key={value} value={value}>
              {name}
            </option>
          ))}
        </select>
        <TileFields
          {...{ kind, settings, checks }}
          onChange={(change) => setSettings((before) => ({ ...before, ...change }))}
        />
        <label htmlFor={titleId}>Title, optional</label>
        <input
          id={titleId}
          value={title}
          maxLength={100}
          autoComplete="off"
          onChange={({ target }) => setTitle(target.value)}
        />
        {problem !== null && <Note tone="bad">{problem}</Note>}
        <div className="actions">
          <button type="button" className="button" onClick={close}>
            Cancel
          </button>
          <button type="submit" className="button primary">
            {tile === null ? 'Add tile' : 'Apply'}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

/** The members of the kind, or what is missing. */
function contentOf(kind: TileKind, settings: TileSettings): object | string {
  const { deviceId, property, series, range, homeId, roomId, action, params, text } = settings;
  switch (kind) {
    case 'value':
    case 'sparkline':
      return deviceId === '' || property === ''
        ? 'Choose a device and a property.'
        : { kind, device_id: deviceId, property };
    case 'chart': {
      const all = [...series, ...(deviceId === '' || property === '' ? [] : [{ device_id: deviceId, property }])];
      const unique = [...new Map(all.map((one) => [`${one.device_id} ${one.property}`, one])).values()];
      return unique.length === 0 ? 'Choose a device and a property.' : { kind, series: unique.slice(0, 6), range };
    }
    case 'room':
      return roomId === '' ? 'Choose a home and a room.' : { kind, home_id: homeId, room_id: roomId };
    case 'command':
      return deviceId === '' || action === ''
        ? 'Choose a device and an action.'
        : { kind, device_id: deviceId, action, ...givenParams(params) };
    case 'text':
      return text.trim() === '' ? 'Write a text.' : { kind, text };
    case 'confirmations':
      return { kind };
  }
}

/** A field that was emptied has no value. */
function givenParams(params: JsonObject): { params?: JsonObject } {
  const given = Object.entries(params).filter(([, value]) => value !== undefined);
  return given.length === 0 ? {} : { params: Object.fromEntries(given) };
}

function newTileId(tiles: readonly Tile[]): string {
  const taken = new Set(tiles.map(({ id }) => id));
  let n = tiles.length + 1;
  while (taken.has(`tile-${n}`)) n++;
  return `tile-${n}`;
}

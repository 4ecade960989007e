import { type FormEvent, useId, useState } from 'react';
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
  const [kindId, titleId] = [useId(), useId()];
  const save = (event: FormEvent): void => {
    event.preventDefault();
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
        <TileFields kind={kind} settings={settings} onChange={(change) => setSettings({ ...settings, ...change })} />
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
        : (withParams(params, { kind, device_id: deviceId, action }) ??
            'The parameters must be a JSON object, such as {"level": 20}.');
    case 'text':
      return text.trim() === '' ? 'Write a text.' : { kind, text };
    case 'confirmations':
      return { kind };
  }
}

/** Null if the parameters are not a JSON object. */
function withParams(text: string, content: object): object | null {
  if (text.trim() === '') return content;
  try {
    const params: unknown = JSON.parse(text);
    return typeof params === 'object' && params !== null && !Array.isArray(params) ? { ...content, params } : null;
  } catch {
    return null;
  }
}

function newTileId(tiles: readonly Tile[]): string {
  const taken = new Set(tiles.map(({ id }) => id));
  let n = tiles.length + 1;
  while (taken.has(`tile-${n}`)) n++;
  return `tile-${n}`;
}

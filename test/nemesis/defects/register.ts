import { applyChanges } from '../../support/apply-changes.ts';
import { nemesisDefects } from './list.ts';

// Loaded before a node (`node --import`): applies one defect to sources as they are loaded, without changing files.

const named = process.env.NEMESIS_DEFECT ?? '';
const defect = nemesisDefects[named];
if (defect === undefined) throw new Error(`there is no defect "${named}"`);
applyChanges(defect.changes);

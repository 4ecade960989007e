import { applyChanges } from '../../support/apply-changes.ts';
import { defects } from './list.ts';

// Loaded before the simulation (`node --import`): applies one defect to sources as they are loaded, without changing
// files.

const named = process.env.SIMULATION_DEFECT ?? '';
const defect = defects[named];
if (defect === undefined) throw new Error(`there is no defect "${named}"`);
applyChanges(defect.changes);

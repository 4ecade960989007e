import { spanText } from '../../domain/json/span.ts';
import type { SamplesOutput } from '../../machines/outputs.ts';
import type { ReportedSamples } from '../../store/contract/actor-store.ts';

/** The reports of one commit as one text: a list of `StoredReport`. */
export function reportedSamples(outputs: readonly SamplesOutput[]): ReportedSamples {
  let text = '';
  for (const { at, deviceAt, sequence, text: given, isTelemetry } of outputs) {
    const json = typeof given === 'string' ? given : spanText(given);
    text += `${text === '' ? '[' : ','}[${at},${deviceAt},${sequence},${isTelemetry ? '{},' : ''}${json}]`;
  }
  return { at: outputs[0]?.at ?? 0, text: `${text}]` };
}

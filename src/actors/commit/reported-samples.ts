import { spanText } from '../../domain/json/span.ts';
import type { SamplesOutput } from '../../machines/outputs.ts';
import type { ReportedSamples } from '../../store/contract/actor-store.ts';

/**
 * The reports of one commit as one text: a list of `StoredReport`. Events need not be in the order of their times: that of
 * an import is read before others are received, and later in the mailbox.
 */
export function reportedSamples(outputs: readonly SamplesOutput[]): ReportedSamples {
  let text = '';
  let first = outputs[0]?.at ?? 0;
  for (const { at, deviceAt, sequence, text: given, isTelemetry } of outputs) {
    const json = typeof given === 'string' ? given : spanText(given);
    text += `${text === '' ? '[' : ','}[${at},${deviceAt},${sequence},${isTelemetry ? '{},' : ''}${json}]`;
    if (at < first) first = at;
  }
  return { at: first, text: `${text}]` };
}

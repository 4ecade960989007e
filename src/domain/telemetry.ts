/**
 * Values that a device reports in `hello` and `heartbeat`, apart from its firmware and battery (contract §4). Stored as it is,
 * the latest value of each member.
 */
export interface Telemetry {
  /** dBm. */
  rssi?: number;
  /** Seconds since the device started. */
  uptimeS?: number;
  /** Bytes. */
  freeHeap?: number;
  /** The type that the last `hello` named; null if it named none. */
  deviceType?: string | null;
  /** The version of the manifest that the device was built for, from the last `hello`; null if it named none. */
  manifestVersion?: number | null;
}

/** Members of `Telemetry` that differ from the record of the device, with the names of the wire. */
export const telemetryMismatches = ['device_type', 'manifest_version'] as const;
export type TelemetryMismatch = (typeof telemetryMismatches)[number];

/** Reported values that differ from the registration. `manifestVersion`: 0 without a manifest. */
export function mismatchesOf(
  { deviceType, manifestVersion }: Telemetry,
  registered: { deviceType: string; manifestVersion: number },
): TelemetryMismatch[] {
  const differs: Readonly<Record<TelemetryMismatch, boolean>> = {
    device_type: deviceType != null && deviceType !== registered.deviceType,
    manifest_version: manifestVersion != null && manifestVersion !== registered.manifestVersion,
  };
  return telemetryMismatches.filter((name) => differs[name]);
}

/** Telemetry with the names of the wire, without members that were not reported. */
export function telemetryFields({ rssi, uptimeS, freeHeap, deviceType, manifestVersion }: Telemetry) {
  return {
    ...(rssi !== undefined && { rssi }),
    ...(uptimeS !== undefined && { uptime_s: uptimeS }),
    ...(freeHeap !== undefined && { free_heap: freeHeap }),
    ...(deviceType != null && { device_type: deviceType }),
    ...(manifestVersion != null && { manifest_version: manifestVersion }),
  };
}

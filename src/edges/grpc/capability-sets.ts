import { create } from '@bufbuild/protobuf';
import { type CapabilitySet, CapabilitySetSchema, SafetyClass } from '#proto/cognition/v1/runtime_pb.js';
import { automaticManifest, categoryNames } from '../../domain/capability-registry.ts';
import type { Capability, Manifest } from '../../domain/manifest.ts';
import type { Json, JsonObject } from '../../domain/values.ts';
import { payloadHash, sha256Hex } from '../../protocol/canonical.ts';

// Capability sets: a manifest's actions as tool definitions in the format of OpenAI-compatible endpoints.

const OPENAI_NAME = /^[A-Za-z0-9_-]{1,64}$/;
const NAME_BEFORE_HASH = 55;

/** The action's name if OpenAI accepts it; otherwise a sanitized name with a hash suffix that keeps it unique. */
export const functionName = (action: string): string =>
  OPENAI_NAME.test(action)
    ? action
    : `${action.replace(/[^A-Za-z0-9_-]/g, '_').slice(0, NAME_BEFORE_HASH)}_${sha256Hex(action).slice(0, 8)}`;

const needsParams = ({ paramSchema: { required } }: Capability): boolean =>
  Array.isArray(required) && required.length > 0;

/** `{type: "function", function: {…}}`. */
export const toolDefinitionOf = (capability: Capability): JsonObject => ({
  type: 'function',
  function: {
    name: functionName(capability.action),
    description: capability.description,
    parameters: {
      type: 'object',
      properties: {
        device_id: { type: 'string', description: 'The id of the device' },
        params: capability.paramSchema,
      },
      required: needsParams(capability) ? ['device_id', 'params'] : ['device_id'],
      additionalProperties: false,
    },
  },
});

const wireSafetyClasses = { NORMAL: SafetyClass.NORMAL, CRITICAL: SafetyClass.CRITICAL } as const;

function buildCapabilitySet({ category, capabilities }: Pick<Manifest, 'category' | 'capabilities'>): CapabilitySet {
  const tools = capabilities.flatMap((capability) => {
    const { action, safetyClass, expectedState } = capability;
    if (safetyClass === 'RESTRICTED') return [];
    const definition = toolDefinitionOf(capability);
    return [
      { action, safetyClass: wireSafetyClasses[safetyClass], definition, ...(expectedState && { expectedState }) },
    ];
  });
  const capabilitySetId = payloadHash({ category, tools: tools as unknown as Json });
  return create(CapabilitySetSchema, { capabilitySetId, category: category ?? '', tools });
}

// Keyed by the capability list: devices with an automatic manifest share one list, and an entry lives as long as its
// manifest.
const capabilitySetCache = new WeakMap<readonly Capability[], CapabilitySet>();

/** The capability set of a manifest. The id is a content hash: equal manifests have the same set. */
export function capabilitySetOf(manifest: Pick<Manifest, 'category' | 'capabilities'>): CapabilitySet {
  let set = capabilitySetCache.get(manifest.capabilities);
  if (set === undefined) {
    set = buildCapabilitySet(manifest);
    capabilitySetCache.set(manifest.capabilities, set);
  }
  return set;
}

/** Capability sets of the built-in device categories. */
export const registryCapabilitySets = (): CapabilitySet[] =>
  categoryNames.flatMap((category) => {
    const manifest = automaticManifest({ deviceId: '', tenantId: '', deviceType: category });
    return manifest === null ? [] : [capabilitySetOf(manifest)];
  });

import type { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { House } from '../../support/house.ts';
import { callTool, codeOf, mcpClient, structured, transports } from '../../support/mcp.ts';
import { makeTenancy, openHouse, type Tenancy } from '../../support/tenancy.ts';

describe.each(transports)('over %s', (transport) => {
  let house: House;
  let tenancy: Tenancy;
  let client: Client;
  beforeAll(async () => {
    house = await openHouse();
    tenancy = await makeTenancy(house);
    client = await mcpClient(house.url, tenancy.tokens.owner, { transport });
    await client.listTools();
  });
  afterAll(async () => {
    await client.close();
    await house.close();
  });

  it('all 25 tools are listed', async () => {
    const { tools } = await client.listTools();
    expect(tools).toHaveLength(25);
  });
  it('whoami', async () => {
    const me = await callTool(client, 'whoami');
    expect(structured(me).user.role).toBe('owner');
    expect(codeOf(await callTool(client, 'get_device_state', { device_id: 'x' }))).toBe('NOT_FOUND');
  });
});

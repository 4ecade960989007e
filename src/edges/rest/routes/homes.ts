import {
  createHome,
  createRoom,
  deleteHome,
  deleteRoom,
  getHome,
  getRoom,
  listHomes,
  listRooms,
  updateHome,
  updateRoom,
} from '../../../operations/homes/homes.ts';
import { getHomeTimeline, getRoomTimeline } from '../../../operations/timeline/timeline.ts';
import type { Route } from '../route.ts';

export const homeRoutes: Route[] = [
  { method: 'POST', path: '/homes', operation: createHome, success: 201 },
  { method: 'GET', path: '/homes', operation: listHomes, success: 200 },
  { method: 'GET', path: '/homes/{homeId}', operation: getHome, success: 200 },
  { method: 'PATCH', path: '/homes/{homeId}', operation: updateHome, success: 200 },
  { method: 'DELETE', path: '/homes/{homeId}', operation: deleteHome, success: 204 },
  { method: 'GET', path: '/homes/{homeId}/timeline', operation: getHomeTimeline, success: 200 },
  { method: 'POST', path: '/homes/{homeId}/rooms', operation: createRoom, success: 201 },
  { method: 'GET', path: '/homes/{homeId}/rooms', operation: listRooms, success: 200 },
  { method: 'GET', path: '/homes/{homeId}/rooms/{roomId}', operation: getRoom, success: 200 },
  { method: 'PATCH', path: '/homes/{homeId}/rooms/{roomId}', operation: updateRoom, success: 200 },
  { method: 'DELETE', path: '/homes/{homeId}/rooms/{roomId}', operation: deleteRoom, success: 204 },
  { method: 'GET', path: '/homes/{homeId}/rooms/{roomId}/timeline', operation: getRoomTimeline, success: 200 },
];

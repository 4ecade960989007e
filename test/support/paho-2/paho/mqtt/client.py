"""The interface of paho-mqtt 2 over the installed paho-mqtt 1.6, for tests where version 2 cannot be installed.

Contains the differences between the two for a program that uses a client: the first parameter of Client and the
arguments of the callbacks, as in eclipse/paho.mqtt.python v2.1.0 (src/paho/mqtt/client.py, docs/migrations.rst). Put the folder
`paho-2` into PYTHONPATH; modules that are not here are found in the installed package.
"""

import enum
import importlib.util
import pathlib
import sys
import warnings
from typing import NamedTuple

import paho.mqtt


def _installed():
    """The client module of paho-mqtt 1.6, under a separate name."""
    here = pathlib.Path(__file__).resolve().parent
    paths = [pathlib.Path(path) / "client.py" for path in paho.mqtt.__path__]
    path = next(path for path in paths if path.resolve().parent != here)
    spec = importlib.util.spec_from_file_location("paho.mqtt.client_1", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


_v1 = _installed()
globals().update({name: value for name, value in vars(_v1).items() if not name.startswith("_") and name != "Client"})

from paho.mqtt.packettypes import PacketTypes  # noqa: E402
from paho.mqtt.properties import Properties  # noqa: E402
from paho.mqtt.reasoncodes import ReasonCodes as ReasonCode  # noqa: E402

# The codes of an MQTT 3.1.1 CONNACK, by the names of MQTT 5.
_CONNACK = (
    "Success",
    "Unsupported protocol version",
    "Client identifier not valid",
    "Server unavailable",
    "Bad user name or password",
    "Not authorized",
)


class CallbackAPIVersion(enum.Enum):
    VERSION1 = 1
    VERSION2 = 2


class ConnectFlags(NamedTuple):
    session_present: bool


class DisconnectFlags(NamedTuple):
    is_disconnect_packet_from_server: bool


class Client(_v1.Client):
    def __init__(
        self,
        callback_api_version=CallbackAPIVersion.VERSION1,
        client_id="",
        clean_session=None,
        userdata=None,
        protocol=_v1.MQTTv311,
        transport="tcp",
        reconnect_on_failure=True,
        manual_ack=False,
    ):
        if callback_api_version == CallbackAPIVersion.VERSION1:
            warnings.warn(
                "Callback API version 1 is deprecated, update to latest version", DeprecationWarning, stacklevel=2
            )
        if isinstance(callback_api_version, str):
            raise ValueError(
                "Unsupported callback API version: version 2.0 added a callback_api_version, "
                "see docs/migrations.rst for details"
            )
        if not isinstance(callback_api_version, CallbackAPIVersion):
            raise ValueError("Unsupported callback API version")
        if manual_ack:
            raise NotImplementedError("manual_ack is not part of this stand-in")
        self._callback_api_version = callback_api_version
        super().__init__(client_id, clean_session, userdata, protocol, transport, reconnect_on_failure)

    @property
    def callback_api_version(self):
        return self._callback_api_version

    def _set(self, name, callback, version_2):
        is_v2 = self._callback_api_version == CallbackAPIVersion.VERSION2
        wrapped = version_2(callback) if is_v2 and callback is not None else callback
        getattr(_v1.Client, name).fset(self, wrapped)

    @property
    def on_connect(self):
        return _v1.Client.on_connect.fget(self)

    @on_connect.setter
    def on_connect(self, callback):
        self._set("on_connect", callback, lambda call: lambda client, data, flags, code: call(
            client, data, ConnectFlags(flags["session present"] > 0),
            ReasonCode(PacketTypes.CONNACK, _CONNACK[code]), Properties(PacketTypes.CONNACK)))

    @property
    def on_disconnect(self):
        return _v1.Client.on_disconnect.fget(self)

    @on_disconnect.setter
    def on_disconnect(self, callback):
        self._set("on_disconnect", callback, lambda call: lambda client, data, code: call(
            client, data, DisconnectFlags(False),
            ReasonCode(PacketTypes.DISCONNECT, "Normal disconnection" if code == 0 else "Unspecified error"),
            Properties(PacketTypes.DISCONNECT)))

    @property
    def on_subscribe(self):
        return _v1.Client.on_subscribe.fget(self)

    @on_subscribe.setter
    def on_subscribe(self, callback):
        self._set("on_subscribe", callback, lambda call: lambda client, data, mid, granted: call(
            client, data, mid, [ReasonCode(PacketTypes.SUBACK, identifier=code) for code in granted],
            Properties(PacketTypes.SUBACK)))

    @property
    def on_unsubscribe(self):
        return _v1.Client.on_unsubscribe.fget(self)

    @on_unsubscribe.setter
    def on_unsubscribe(self, callback):
        self._set("on_unsubscribe", callback, lambda call: lambda client, data, mid: call(
            client, data, mid, [], Properties(PacketTypes.UNSUBACK)))

    @property
    def on_publish(self):
        return _v1.Client.on_publish.fget(self)

    @on_publish.setter
    def on_publish(self, callback):
        self._set("on_publish", callback, lambda call: lambda client, data, mid: call(
            client, data, mid, ReasonCode(PacketTypes.PUBACK, "Success"), Properties(PacketTypes.PUBACK)))

    def loop_stop(self):
        return super().loop_stop()

"""Free providers: is the domain one where everybody can have a mailbox?

The list is short: the providers with millions of mailboxes. A domain that is not on it may still be one of
the thousands of small ones.
"""

from __future__ import annotations

import re

from providers.base import Fields, LocalSource, Query, Spec
from providers.email.address import Address
from providers.installed import Datasets

_DOMAINS = frozenset(
    "126.com 139.com 163.com 189.cn 21cn.com aliyun.com foxmail.com qq.com sina.cn sina.com sohu.com "
    "aol.com bellsouth.net att.net sbcglobal.net comcast.net cox.net charter.net earthlink.net juno.com "
    "optonline.net rocketmail.com verizon.net ymail.com zoho.com zohomail.com "
    "gmail.com googlemail.com hotmail.com live.com msn.com outlook.com passport.com windowslive.com "
    "icloud.com mac.com me.com duck.com fastmail.com fastmail.fm hey.com hushmail.com "
    "proton.me protonmail.ch protonmail.com pm.me tuta.com tuta.io tutamail.com tutanota.com tutanota.de "
    "keemail.me mailbox.org posteo.de posteo.net riseup.net disroot.org startmail.com runbox.com "
    "gmx.at gmx.ch gmx.com gmx.de gmx.net web.de freenet.de t-online.de arcor.de email.de mail.de online.de "
    "mail.com email.com usa.com inbox.com lycos.com excite.com rediffmail.com indiatimes.com "
    "bigpond.com bigpond.net.au optusnet.com.au btinternet.com btopenworld.com ntlworld.com "
    "sky.com talktalk.net tiscali.co.uk virginmedia.com blueyonder.co.uk rogers.com shaw.ca sympatico.ca "
    "telus.net videotron.ca free.fr laposte.net neuf.fr numericable.fr orange.fr sfr.fr wanadoo.fr "
    "alice.it libero.it tim.it tin.it tiscali.it virgilio.it bluewin.ch telenet.be skynet.be "
    "kpnmail.nl planet.nl xs4all.nl ziggo.nl home.nl telia.com telfort.nl o2.pl onet.pl op.pl wp.pl "
    "interia.pl seznam.cz centrum.cz email.cz abv.bg ukr.net i.ua meta.ua bk.ru inbox.ru internet.ru list.ru "
    "mail.ru rambler.ru ya.ru yandex.com yandex.ru yandex.ua naver.com daum.net hanmail.net nate.com "
    "bol.com.br ig.com.br terra.com.br uol.com.br".split()
)
# Brands with a domain in many countries.
_BRANDS = re.compile(r"(?:yahoo|hotmail|live|outlook|msn|gmx|yandex|aol)\.(?:com?\.)?[a-z]{2,3}")


def find(query: Query, datasets: Datasets) -> Fields:
    """Look the domain up."""
    return {"is_free_provider": is_free(query.value)}


def is_free(address: Address) -> bool:
    """Whether everybody can have an address like this."""
    return address.domain in _DOMAINS or _BRANDS.fullmatch(address.domain) is not None


SOURCE = LocalSource(
    Spec(
        name="freemail",
        kind="email",
        fields=frozenset({"is_free_provider"}),
        licence="part of vedette",
        attribution="vedette",
    ),
    find,
)

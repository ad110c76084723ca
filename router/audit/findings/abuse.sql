SELECT router, hour, peer, prefix, signer, reason, event, count
FROM abuse_hour
ORDER BY count DESC, router, hour, peer NULLS FIRST, prefix NULLS FIRST, signer NULLS FIRST, reason NULLS FIRST, event
LIMIT 200;

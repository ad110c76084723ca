SELECT router, hour, peer, signer, reason, event, count
FROM abuse_hour
ORDER BY count DESC, router, hour, peer NULLS FIRST, signer NULLS FIRST, reason NULLS FIRST, event
LIMIT 200;

SELECT min(minute) AS min_minute, max(minute) AS max_minute FROM accepted WHERE is_within;

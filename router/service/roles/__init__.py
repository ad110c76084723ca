"""What services hear and do by their role, besides what every service may."""
